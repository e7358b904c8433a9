package output

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckFile returns an error, before anything is submitted, if the file could not be
// written.
func CheckFile(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder: name a file in it", path)
	case err == nil && !force:
		return fmt.Errorf("%s exists: choose another file, or replace it with --force", path)
	}
	return CheckFolder(path)
}

// CheckFolder returns an error if the folder of a file is missing.
func CheckFolder(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return fmt.Errorf("the folder %s for the file %s does not exist: create it first", folder, filepath.Base(path))
	}
	return nil
}
