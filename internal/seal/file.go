package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/reelay/reelay/internal/freshfile"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// File is a secrets file that is read again when it changes, so that keys can be rotated without a restart.
type File struct{ file *freshfile.File[opened] }

// opened is what a secrets file contains.
type opened struct {
	secrets Secrets
	keys    *keys
}

// OpenFile reads the secrets in the file at path, as Load does.
func OpenFile(path string) (*File, error) {
	f := &File{freshfile.New(func() (o opened, err error) {
		if o.secrets, err = Load(path); err == nil {
			o.keys, err = readKeyset(o.secrets.Keyset)
		}
		return o, err
	}, path)}
	_, err := f.file.Get()
	return f, err
}

// Sealer returns a sealer with the keyset of the file.
func (f *File) Sealer() *Sealer { return &Sealer{func() *keys { return f.newest().keys }} }

// LinkKeys returns the keys that sign links: the first one signs, all of them verify.
func (f *File) LinkKeys() [][]byte {
	secrets := f.newest().secrets
	return append([][]byte{secrets.LinkKey}, secrets.OtherLinkKeys...)
}

func (f *File) newest() opened {
	o, _ := f.file.Get() // OpenFile has read it
	return o
}

// maxOtherLinkKeys is how many link keys verify besides the one that signs: the one before, and the next.
const maxOtherLinkKeys = 2

var errNoNewKey = errors.New("its newest key is in use already: add one first")

// AddKeys adds a new key to the keyset and a new link key, which open and verify, but do not seal and sign yet.
func (s *Secrets) AddKeys() error {
	err := s.edit(func(manager *keyset.Manager) error {
		_, err := manager.Add(aead.AES256GCMKeyTemplate())
		return err
	})
	if err != nil {
		return fmt.Errorf("add a key: %w", err)
	}
	linkKey := make([]byte, linkKeyBytes)
	_, _ = rand.Read(linkKey) // never fails
	s.OtherLinkKeys = append([][]byte{linkKey}, s.OtherLinkKeys...)
	s.OtherLinkKeys = s.OtherLinkKeys[:min(len(s.OtherLinkKeys), maxOtherLinkKeys)]
	s.NextLinkKey = true
	return nil
}

// UseKeys makes the newest keys seal and sign. The older ones still open and verify.
func (s *Secrets) UseKeys() error {
	keys, err := s.KeyIDs()
	if err != nil {
		return err
	}
	newest := keys[len(keys)-1]
	if newest.Primary || !s.NextLinkKey {
		return errNoNewKey
	}
	if err := s.edit(func(manager *keyset.Manager) error { return manager.SetPrimary(newest.ID) }); err != nil {
		return fmt.Errorf("use the newest key: %w", err)
	}
	s.LinkKey, s.OtherLinkKeys[0], s.NextLinkKey = s.OtherLinkKeys[0], s.LinkKey, false
	return nil
}

// KeyID is a key of the keyset.
type KeyID struct {
	ID      uint32 `json:"id"`
	Primary bool   `json:"primary"`
}

// KeyIDs lists the keys of the keyset, oldest first.
func (s *Secrets) KeyIDs() ([]KeyID, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(s.Keyset)))
	if err != nil {
		return nil, fmt.Errorf("read the keyset: %w", err)
	}
	info := handle.KeysetInfo()
	var ids []KeyID
	for _, key := range info.GetKeyInfo() {
		ids = append(ids, KeyID{key.GetKeyId(), key.GetKeyId() == info.GetPrimaryKeyId()})
	}
	return ids, nil
}

func (s *Secrets) edit(change func(*keyset.Manager) error) error {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(s.Keyset)))
	if err != nil {
		return err
	}
	manager := keyset.NewManagerFromHandle(handle)
	if err := change(manager); err != nil {
		return err
	}
	if handle, err = manager.Handle(); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return err
	}
	s.Keyset = slices.Clone(text.Bytes())
	return nil
}

// Create writes new secrets to a new file. It returns fs.ErrExist if there is one.
func Create(path string) error { return create(path) }

// Replace writes secrets over those in the file at path, whole or not at all.
func Replace(path string, s Secrets) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, ".secrets-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	owner, err := os.Stat(path)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	_, writeErr := file.Write(append(text, '\n'))
	// What is sealed with lost secrets is lost too: they must be on the disk.
	if err := errors.Join(writeErr, keepOwner(file, owner), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// keepOwner gives a file the owner of another, so that root can rotate the keys of a service.
func keepOwner(file *os.File, of os.FileInfo) error {
	owner, ok := ownerOf(of)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return file.Chown(owner.uid, owner.gid)
}

type owner struct{ uid, gid int }
