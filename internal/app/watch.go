package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"toolgate/internal/config"
)

// settleTime is how long a file must be unchanged before it is read: editors write in several
// steps.
const settleTime = 200 * time.Millisecond

// WatchConfig applies changes of the servers in the config file and of accepted reviews while the
// program runs, until stop is called. Other settings are read at the start only. If the config
// cannot be read, nothing changes.
func (o *Options) WatchConfig(a *App) (stop func()) {
	if o.Wrapped != nil {
		return func() {}
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		a.Log.Warn("changes of the config are not watched", "err", err)
		return func() {}
	}
	file := filepath.Join(a.ConfigDir, "config.toml")
	trust := filepath.Join(a.StateDir, "trust")
	// Watch the folders, not the files: editors replace files.
	for _, dir := range []string{a.ConfigDir, trust} {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = w.Add(dir)
		}
		if err != nil {
			a.Log.Warn("changes are not watched", "folder", dir, "err", err)
		}
	}
	var done sync.WaitGroup
	done.Go(func() { // ends with the watcher
		reload, review := time.NewTimer(0), time.NewTimer(0)
		reload.Stop()
		review.Stop()
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				switch {
				case e.Name == file:
					reload.Reset(settleTime)
				case filepath.Dir(e.Name) == trust && filepath.Ext(e.Name) == ".json":
					review.Reset(settleTime)
				}
			case err, ok := <-w.Errors:
				if !ok {
					return
				}
				a.Log.Warn("watching the config", "err", err)
			case <-reload.C:
				o.reload(a, file)
			case <-review.C:
				if err := a.control.check(trust); err != nil {
					a.Log.Error("accepted reviews not read", "err", err)
					continue
				}
				a.Downstreams.ReloadPins()
			}
		}
	})
	return func() {
		w.Close()
		done.Wait()
	}
}

// reload applies the servers of the config file.
func (o *Options) reload(a *App, file string) {
	c, err := o.configAt(file)
	if err != nil {
		a.Log.Error("config not reloaded", "err", err)
		return
	}
	a.Log.Info("config reloaded")
	a.Downstreams.Update(a.specs(c.MCPServers))
}

// configAt reads a config file and applies the settings of the command line.
func (o *Options) configAt(file string) (config.Config, error) {
	if err := o.control.check(file); err != nil {
		return config.Config{}, err
	}
	c, err := config.Load(file)
	for _, set := range o.ConfigValues {
		if err == nil {
			err = c.Set(set, "-c")
		}
	}
	return c, err
}

// watchFile calls changed when a file has changed and then been unchanged for [settleTime], until
// stop is called.
func watchFile(file string, log *slog.Logger, changed func()) (stop func()) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(filepath.Dir(file)) // not the file, which an editor replaces
	}
	if err != nil {
		log.Warn("changes are not watched", "file", file, "err", err)
		return func() {}
	}
	var done sync.WaitGroup
	done.Go(func() { // ends with the watcher
		timer := time.NewTimer(0)
		timer.Stop()
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				if e.Name == file {
					timer.Reset(settleTime)
				}
			case err, ok := <-w.Errors:
				if !ok {
					return
				}
				log.Warn("watching a file", "file", file, "err", err)
			case <-timer.C:
				changed()
			}
		}
	})
	return func() {
		w.Close()
		done.Wait()
	}
}
