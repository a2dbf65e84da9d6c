package cli

import (
	"path/filepath"

	"toolgate/internal/app"

	"github.com/spf13/cobra"
)

// checkDirectories checks the directories in the flags of any command and makes those of --add-dir
// absolute.
func (p *program) checkDirectories(cmd *cobra.Command) error {
	if cmd.Flags().Changed("cd") {
		if _, err := app.Directory("-C", p.Dir); err != nil {
			return err
		}
	}
	return absolute("--add-dir", p.AddDirs)
}

// absolute checks the directories that the flag what names and makes them absolute.
func absolute(what string, dirs []string) error {
	for i, dir := range dirs {
		if _, err := app.Directory(what, dir); err != nil {
			return err
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		dirs[i] = abs
	}
	return nil
}
