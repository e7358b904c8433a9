package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash/crc32"
	"math/big"
	"strings"
)

// A secret is its prefix, 43 characters of [0-9A-Za-z] that hold 256 random bits,
// and 6 more that are the CRC-32 of all before them: who scans texts for leaked
// secrets knows one for sure, and one that was mistyped needs no look-up.
const (
	KeyPrefix    = "rl_live_"
	WorkerPrefix = "rlw_live_"

	secretBytes   = 32
	randomChars   = 43
	checksumChars = 6
	// ShownChars are how many of the random ones may be shown, to tell keys apart.
	ShownChars = 4
)

// New makes a secret and the hash that is kept of it.
func New(prefix string) (secret string, hash []byte) {
	b := make([]byte, secretBytes)
	rand.Read(b)
	secret = prefix + base62(b, randomChars)
	secret += secretChecksum(secret)
	return secret, Hash(secret)
}

// NewToken makes a secret that no person sees: a session's.
func NewToken() (token string, hash []byte) {
	b := make([]byte, secretBytes)
	rand.Read(b)
	token = base64.RawURLEncoding.EncodeToString(b)
	return token, Hash(token)
}

// Kind returns the prefix of the kind that a secret is of, KeyPrefix or
// WorkerPrefix, or "" for what is none, whoever sent it.
func Kind(secret string) string {
	for _, kind := range []string{KeyPrefix, WorkerPrefix} {
		if is(secret, kind) {
			return kind
		}
	}
	return ""
}

func is(secret, prefix string) bool {
	if !strings.HasPrefix(secret, prefix) || len(secret) != len(prefix)+randomChars+checksumChars {
		return false
	}
	end := len(secret) - checksumChars
	return secretChecksum(secret[:end]) == secret[end:]
}

func secretChecksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	return base62([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, checksumChars)
}

// base62 writes bytes as a number in the digits 0-9a-zA-Z, with zeros before it.
func base62(b []byte, width int) string {
	digits := new(big.Int).SetBytes(b).Text(62)
	return strings.Repeat("0", width-len(digits)) + digits
}

// Hash needs no salt: a secret has 256 random bits of its own.
func Hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// SameHash compares in constant time.
func SameHash(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
