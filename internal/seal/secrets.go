package seal

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// linkKeyBytes is the size of an HMAC-SHA256 key.
const linkKeyBytes = 32

// Secrets are what must outlive the database's backups and never be in them.
type Secrets struct {
	// Keyset is for New.
	Keyset json.RawMessage `json:"keyset"`
	// LinkKey signs links to objects.
	LinkKey []byte `json:"linkKey"`
	// OtherLinkKeys also verify links, newest first.
	OtherLinkKeys [][]byte `json:"otherLinkKeys,omitempty"`
	// NextLinkKey is set if the first of OtherLinkKeys is newer than LinkKey.
	NextLinkKey bool `json:"nextLinkKey,omitempty"`
}

// LoadOrCreate returns the secrets in the file at path, which it creates if
// there is none. Processes that create it at once all get the same secrets.
func LoadOrCreate(path string) (Secrets, error) {
	secrets, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secrets, err
	}
	if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return Secrets{}, fmt.Errorf("create the secrets file %s: %w", path, err)
	}
	return Load(path)
}

// Load returns the secrets in the file at path. It refuses a file that other
// users may read or write. The group may read a file of root, as PostgreSQL
// allows for its keys: orchestrators of containers mount secrets so. A missing
// file is an fs.ErrNotExist.
func Load(path string) (Secrets, error) {
	file, err := os.Open(path)
	if err != nil {
		return Secrets{}, fmt.Errorf("open the secrets file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Secrets{}, fmt.Errorf("open the secrets file: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || !closed(mode.Perm(), info) {
		return Secrets{}, fmt.Errorf("the secrets file %s must be a file for its owner only, but it is %s; run: chmod 600 %s", path, mode, path)
	}
	var secrets Secrets
	if err := json.NewDecoder(file).Decode(&secrets); err != nil {
		return Secrets{}, fmt.Errorf("the secrets file %s is not JSON of keyset and linkKey: %w", path, err)
	}
	if _, err := New(secrets.Keyset); err != nil {
		return Secrets{}, fmt.Errorf("the secrets file %s holds no usable keyset: %w", path, err)
	}
	if len(secrets.LinkKey) != linkKeyBytes {
		return Secrets{}, fmt.Errorf("the secrets file %s must hold a linkKey of %d bytes in base64, not of %d", path, linkKeyBytes,
			len(secrets.LinkKey))
	}
	for _, key := range secrets.OtherLinkKeys {
		if len(key) != linkKeyBytes {
			return Secrets{}, fmt.Errorf("the secrets file %s must hold otherLinkKeys of %d bytes in base64, not of %d", path, linkKeyBytes,
				len(key))
		}
	}
	return secrets, nil
}

// create writes new secrets beside path and links them there when they are
// whole. It returns fs.ErrExist if another process was first.
func create(path string) error {
	text, err := newSecrets()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, ".secrets-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, writeErr := file.Write(text)
	// What is sealed with lost secrets is lost too: they must be on the disk.
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func newSecrets() ([]byte, error) {
	keyset, err := NewKeyset()
	if err != nil {
		return nil, err
	}
	linkKey := make([]byte, linkKeyBytes)
	_, _ = rand.Read(linkKey) // never fails
	text, err := json.MarshalIndent(Secrets{Keyset: keyset, LinkKey: linkKey}, "", "  ")
	return append(text, '\n'), err
}

func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

// closed reports whether a file of the mode is closed to all but its owner, or the group of a file of root.
func closed(mode os.FileMode, info os.FileInfo) bool {
	if owner, ok := ownerOf(info); ok && owner.uid == 0 {
		return mode&0o037 == 0
	}
	return mode&0o077 == 0
}
