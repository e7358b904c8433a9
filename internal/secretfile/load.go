// Package secretfile reads secret settings from files, as orchestrators of containers provide them. The files
// may be replaced while the process runs.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/reelay/reelay/internal/freshfile"
)

// Names are the settings that are secrets: for each NAME, NAME_FILE can name a file with the value.
var Names = []string{
	"DATABASE_URL", "REDIS_URL", "REELAY_S3_ACCESS_KEY", "REELAY_S3_SECRET_KEY", "REELAY_OIDC_CLIENT_SECRET", "REELAY_API_KEY",
	"REELAY_MODERATION_SECRET",
}

// most is the size of the largest secret.
const most = 64 << 10

// Load sets each setting whose file is named in the environment, and removes the name of the file: programs
// that this process starts must not find both. An error shows no secret.
func Load() error {
	var wrong []error
	for _, name := range Names {
		from := name + "_FILE"
		path := os.Getenv(from)
		if path == "" {
			continue
		}
		if os.Getenv(name) != "" {
			wrong = append(wrong, fmt.Errorf("%s and %s are both set: use one of them", name, from))
			continue
		}
		value, err := read(path)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s is %q: it must be a file with the value of %s: %w", from, path, name, err))
			continue
		}
		wrong = append(wrong, os.Setenv(name, value), os.Unsetenv(from))
		loaded.Store(name, secret{path, freshfile.New(func() (string, error) { return read(path) }, path)})
	}
	return errors.Join(wrong...)
}

// loaded are the secrets that Load has read, by name. Like the environment, they are the process's.
var loaded sync.Map

type secret struct {
	path string
	file *freshfile.File[string]
}

// Newest returns the value of a setting: that of its file as it is now, if Load has read one, or that of
// the environment.
func Newest(name string) string {
	if found, ok := loaded.Load(name); ok {
		if value, err := found.(secret).file.Get(); err == nil {
			return value
		}
	}
	return os.Getenv(name)
}

// Environment returns variables by which a program that this one starts reads the same files.
func Environment() (variables []string) {
	loaded.Range(func(name, found any) bool {
		variables = append(variables, name.(string)+"=", name.(string)+"_FILE="+found.(secret).path)
		return true
	})
	return variables
}

// read returns the only line of a file.
func read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(text) > most:
		return "", fmt.Errorf("it has more than %d bytes", most)
	case value == "":
		return "", errors.New("it is empty")
	case strings.ContainsAny(value, "\r\n\x00"):
		return "", errors.New("it has more than one line")
	}
	return value, nil
}
