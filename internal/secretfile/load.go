// Package secretfile reads secret settings from files, as orchestrators of containers provide them.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Names are the settings that are secrets: for each NAME, NAME_FILE can name a file with the value.
var Names = []string{
	"DATABASE_URL", "REDIS_URL", "REELAY_S3_ACCESS_KEY", "REELAY_S3_SECRET_KEY", "REELAY_OIDC_CLIENT_SECRET", "REELAY_API_KEY",
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
	}
	return errors.Join(wrong...)
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
