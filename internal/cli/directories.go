package cli

import (
	"path/filepath"

	"toolgate/internal/app"

	"github.com/spf13/cobra"
)

// checkDirectories returns what is wrong with the directories in the flags,
// whichever command they are for. It makes those of --add-dir absolute.
func (p *program) checkDirectories(cmd *cobra.Command) error {
	if cmd.Flags().Changed("cd") {
		if _, err := app.Directory("-C", p.Dir); err != nil {
			return err
		}
	}
	return absolute("--add-dir", p.AddDirs)
}

// absolute makes the directories that the user named with what absolute.
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
