// Package seal encrypts prompts so that each can be forgotten by itself.
//
// Every text has a data key of its own, which is stored beside it wrapped by a
// keyset that the database does not hold. Deleting the wrapped key shreds the
// text wherever copies of its ciphertext may be, as long as none has the
// wrapped key too: a backup shreds it when the backup itself is gone.
package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/subtle/random"
	"github.com/tink-crypto/tink-go/v2/tink"
)

var (
	// ErrShredded means that the wrapped key was deleted: nobody can read the
	// text any more.
	ErrShredded = errors.New("the text was shredded: its key is deleted")
	// ErrWrongKey means that the keyset lacks the key that sealed the text.
	ErrWrongKey = errors.New("the keyset lacks the key that sealed the text; use the secrets file it was sealed with")
	// ErrTampered means that ciphertext or key were changed, or belong to other
	// associated data.
	ErrTampered = errors.New("the sealed text was changed, or it belongs elsewhere")
)

const (
	dataKeyBytes = 32 // AES-256
	// A ciphertext of a keyset begins with a version byte and the id of its key.
	prefixBytes = 5
)

// Sealed is an encrypted text and its key, wrapped. Without WrappedKey nobody
// can read it.
type Sealed struct {
	Ciphertext []byte
	WrappedKey []byte
}

// Sealer seals and opens texts with the keys of one keyset.
type Sealer struct{ current func() *keys }

// keys are the keys of a keyset.
type keys struct {
	wrap tink.AEAD
	ids  map[uint32]bool
}

// NewKeyset makes a keyset with one new AES-256-GCM key, as Tink's JSON.
func NewKeyset() ([]byte, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make a keyset: %w", err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return nil, fmt.Errorf("write a keyset: %w", err)
	}
	return text.Bytes(), nil
}

// New makes a Sealer from a keyset in Tink's JSON. Its primary key seals; each
// of its enabled keys opens what it sealed.
func New(keysetJSON []byte) (*Sealer, error) {
	fixed, err := readKeyset(keysetJSON)
	if err != nil {
		return nil, err
	}
	return &Sealer{func() *keys { return fixed }}, nil
}

func readKeyset(keysetJSON []byte) (*keys, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(keysetJSON)))
	if err != nil {
		return nil, fmt.Errorf("read the keyset: %w", err)
	}
	wrap, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("use the keyset: %w", err)
	}
	keyIDs := map[uint32]bool{}
	for _, key := range handle.KeysetInfo().GetKeyInfo() {
		keyIDs[key.GetKeyId()] = true
	}
	return &keys{wrap: wrap, ids: keyIDs}, nil
}

// Seal encrypts plaintext under a new key. It opens only with the same
// associated data, which is not secret: what the text belongs to.
func (s *Sealer) Seal(plaintext, associated []byte) (Sealed, error) {
	dataKey := random.GetRandomBytes(dataKeyBytes)
	cipher, err := subtle.NewAESGCM(dataKey)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	ciphertext, err := cipher.Encrypt(plaintext, associated)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	wrapped, err := s.current().wrap.Encrypt(dataKey, associated)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal the data key: %w", err)
	}
	return Sealed{Ciphertext: ciphertext, WrappedKey: wrapped}, nil
}

// Open returns the text that was sealed, or ErrShredded, ErrWrongKey or
// ErrTampered.
func (s *Sealer) Open(sealed Sealed, associated []byte) ([]byte, error) {
	if len(sealed.WrappedKey) == 0 {
		return nil, ErrShredded
	}
	with := s.current()
	dataKey, err := with.wrap.Decrypt(sealed.WrappedKey, associated)
	if err != nil && with.lacks(sealed.WrappedKey) {
		return nil, ErrWrongKey // Tink does not tell it from a changed text
	}
	if err != nil {
		return nil, ErrTampered
	}
	cipher, err := subtle.NewAESGCM(dataKey)
	if err != nil {
		return nil, ErrTampered
	}
	plaintext, err := cipher.Decrypt(sealed.Ciphertext, associated)
	if err != nil {
		return nil, ErrTampered
	}
	return plaintext, nil
}

// lacks reports whether the key that wrapped a key is not among these.
func (k *keys) lacks(wrapped []byte) bool {
	return len(wrapped) > prefixBytes && !k.ids[binary.BigEndian.Uint32(wrapped[1:prefixBytes])]
}
