package credentials

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// ReadPrivate reads a JSON file that has keys. It refuses one that other users can read. writer
// is what wrote it.
func ReadPrivate(path, writer string, v any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s contains keys and can be read by other users: run `chmod 600 %s`", path, path)
	}
	if err := json.NewDecoder(io.LimitReader(file, 1<<20)).Decode(v); err != nil {
		return fmt.Errorf("%s was not written by %s: %w", path, writer, err)
	}
	return nil
}

// WritePrivate replaces a file and makes it readable only by its owner.
func WritePrivate(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(fresh, path)
}
