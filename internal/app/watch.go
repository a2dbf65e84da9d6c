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

// settleTime is how long a file must be unchanged before it is read: editors write in several steps.
const settleTime = 200 * time.Millisecond

// A watchedFolder is a folder in which a change of certain files has an effect.
type watchedFolder struct {
	dir     string
	matters func(file string) bool
	changed func() // called when files that matter have changed and then been stable for [settleTime]
}

// watch watches folders until stop is called. What cannot be watched is logged.
func watch(log *slog.Logger, folders ...watchedFolder) (stop func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("changes of the config are not watched", "err", err)
		return func() {}
	}
	for _, f := range folders {
		// Watch the folders, not the files: editors replace files.
		err := os.MkdirAll(f.dir, 0o700)
		if err == nil {
			err = w.Add(f.dir)
		}
		if err != nil {
			log.Warn("changes are not watched", "folder", f.dir, "err", err)
		}
	}
	var done sync.WaitGroup
	done.Go(func() { // ends with the watcher
		stable := time.NewTimer(0)
		stable.Stop()
		pending := make([]bool, len(folders))
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				for i, f := range folders {
					if filepath.Dir(e.Name) == f.dir && f.matters(e.Name) {
						pending[i] = true
						stable.Reset(settleTime)
					}
				}
			case err, ok := <-w.Errors:
				if !ok {
					return
				}
				log.Warn("watching the config", "err", err)
			case <-stable.C:
				for i, f := range folders {
					if pending[i] {
						f.changed()
					}
				}
				clear(pending)
			}
		}
	})
	return func() {
		w.Close()
		done.Wait()
	}
}

// watchedConfig is the folder of the config file.
func watchedConfig(file string, changed func()) watchedFolder {
	return watchedFolder{filepath.Dir(file), func(name string) bool { return name == file }, changed}
}

// WatchConfig applies changes of the servers in the config file and of accepted reviews while the
// program runs, until stop is called. Other settings are read at the start only. If the config
// cannot be read, nothing changes.
func (o *Options) WatchConfig(a *App) (stop func()) {
	if o.Wrapped != nil {
		return func() {}
	}
	file := filepath.Join(a.ConfigDir, "config.toml")
	trust := filepath.Join(a.StateDir, "trust")
	isReview := func(name string) bool { return filepath.Ext(name) == ".json" }
	reread := func() {
		if err := a.control.check(trust); err != nil {
			a.Log.Error("accepted reviews not read", "err", err)
			return
		}
		a.Downstreams.ReloadPins()
	}
	reload := func() {
		c, err := o.configAt(file)
		if err != nil {
			a.Log.Error("config not reloaded", "err", err)
			return
		}
		a.Log.Info("config reloaded")
		a.Downstreams.Update(a.specs(c.MCPServers))
	}
	return watch(a.Log, watchedConfig(file, reload), watchedFolder{trust, isReview, reread})
}

// configAt is readConfig for a file that may have changed since the start.
func (o *Options) configAt(file string) (config.Config, error) {
	if err := o.control.check(file); err != nil {
		return config.Config{}, err
	}
	return o.readConfig(file)
}
