package seal_test

import (
	"bytes"
	"testing"

	"github.com/reelay/reelay/internal/seal"
	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

var (
	fox  = []byte("a fox runs through snow")
	job1 = []byte("job_1")
	job2 = []byte("job_2")
)

func newKeyset(t *testing.T) []byte {
	text, err := seal.NewKeyset()
	require.NoError(t, err)
	return text
}

func newSealer(t *testing.T, keysetJSON []byte) *seal.Sealer {
	sealer, err := seal.New(keysetJSON)
	require.NoError(t, err)
	return sealer
}

func sealed(t *testing.T, sealer *seal.Sealer, plaintext, associated []byte) seal.Sealed {
	s, err := sealer.Seal(plaintext, associated)
	require.NoError(t, err)
	return s
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("ReturnsTheSealedText", func(t *testing.T) {
		t.Parallel()
		sealer := newSealer(t, newKeyset(t))

		for _, text := range [][]byte{fox, {}, bytes.Repeat([]byte("x"), 1<<20)} {
			plaintext, err := sealer.Open(sealed(t, sealer, text, job1), job1)
			require.NoError(t, err)
			require.True(t, bytes.Equal(text, plaintext))
		}
	})

	t.Run("RefusesATextSealedForAnotherJob", func(t *testing.T) {
		t.Parallel()
		sealer := newSealer(t, newKeyset(t))
		one, two := sealed(t, sealer, fox, job1), sealed(t, sealer, fox, job2)

		for _, swapped := range []seal.Sealed{
			two,
			{Ciphertext: one.Ciphertext, WrappedKey: two.WrappedKey},
			{Ciphertext: two.Ciphertext, WrappedKey: one.WrappedKey},
		} {
			_, err := sealer.Open(swapped, job1)
			require.ErrorIs(t, err, seal.ErrTampered)
		}
	})

	t.Run("RefusesAChangeInAnyByte", func(t *testing.T) {
		t.Parallel()
		sealer := newSealer(t, newKeyset(t))
		whole := sealed(t, sealer, fox, job1)

		for i := range whole.Ciphertext {
			changed := seal.Sealed{Ciphertext: bytes.Clone(whole.Ciphertext), WrappedKey: whole.WrappedKey}
			changed.Ciphertext[i] ^= 1
			_, err := sealer.Open(changed, job1)
			require.ErrorIs(t, err, seal.ErrTampered)
		}
		for i := range whole.WrappedKey {
			changed := seal.Sealed{Ciphertext: whole.Ciphertext, WrappedKey: bytes.Clone(whole.WrappedKey)}
			changed.WrappedKey[i] ^= 1
			_, err := sealer.Open(changed, job1)
			require.Error(t, err)
		}
		_, err := sealer.Open(seal.Sealed{WrappedKey: []byte{1}}, job1)
		require.ErrorIs(t, err, seal.ErrTampered)
	})

	t.Run("CannotReadAShreddedText", func(t *testing.T) {
		t.Parallel()
		sealer := newSealer(t, newKeyset(t))
		shredded := sealed(t, sealer, fox, job1)
		shredded.WrappedKey = nil

		_, err := sealer.Open(shredded, job1)

		require.ErrorIs(t, err, seal.ErrShredded)
	})

	t.Run("ReportsThatTheKeyIsMissing", func(t *testing.T) {
		t.Parallel()
		foreign := sealed(t, newSealer(t, newKeyset(t)), fox, job1)

		_, err := newSealer(t, newKeyset(t)).Open(foreign, job1)

		require.ErrorIs(t, err, seal.ErrWrongKey)
	})

	t.Run("ReadsOldTextsAfterARotation", func(t *testing.T) {
		t.Parallel()
		before := newKeyset(t)
		old := sealed(t, newSealer(t, before), fox, job1)
		rotated := newSealer(t, rotate(t, before))

		plaintext, err := rotated.Open(old, job1)
		require.NoError(t, err)
		_, err = newSealer(t, before).Open(sealed(t, rotated, fox, job1), job1)

		require.Equal(t, fox, plaintext)
		require.ErrorIs(t, err, seal.ErrWrongKey, "new texts must be sealed with the new key")
	})
}

// rotate adds a new primary key to a keyset.
func rotate(t *testing.T, keysetJSON []byte) []byte {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(keysetJSON)))
	require.NoError(t, err)
	manager := keyset.NewManagerFromHandle(handle)
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	require.NoError(t, err)
	require.NoError(t, manager.SetPrimary(id))
	handle, err = manager.Handle()
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)))
	return text.Bytes()
}

func TestSeal(t *testing.T) {
	t.Parallel()

	t.Run("UsesANewKeyForEachText", func(t *testing.T) {
		t.Parallel()
		sealer := newSealer(t, newKeyset(t))

		one, two := sealed(t, sealer, fox, job1), sealed(t, sealer, fox, job1)

		require.NotContains(t, string(one.Ciphertext), "fox")
		_, err := sealer.Open(seal.Sealed{Ciphertext: one.Ciphertext, WrappedKey: two.WrappedKey}, job1)
		require.ErrorIs(t, err, seal.ErrTampered)
	})
}

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("RefusesAnInvalidKeyset", func(t *testing.T) {
		t.Parallel()

		for _, text := range []string{"", "{}", "null", `{"primaryKeyId":1,"key":[]}`} {
			_, err := seal.New([]byte(text))
			require.Error(t, err, text)
		}
	})
}
