package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile has the SHA-256 of every other file of the release. sumsFile.sig is its signature.
const sumsFile = "SHA256SUMS"

// writeSums writes the checksums of all files in folder, as `sha256sum -c` reads them.
func writeSums(folder string) error {
	files, err := os.ReadDir(folder) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		sum, err := sumOf(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, f.Name())
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums.String()), 0o644)
}

func sumOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hash.Sum(nil), err
}

// sign writes the signature of a file beside it, with an SSH key. `ssh-keygen -Y verify -n file`
// checks it.
func sign(ctx context.Context, key, file string) error {
	if _, err := output(ctx, ".", nil, "ssh-keygen", "-Y", "sign", "-n", "file", "-f", key, file); err != nil {
		return fmt.Errorf("sign %s with the SSH key %s: %w", filepath.Base(file), key, err)
	}
	return nil
}
