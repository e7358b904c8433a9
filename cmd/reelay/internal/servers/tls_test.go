package servers

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTLSFiles(t *testing.T) {
	t.Parallel()

	t.Run("NameTheInvalidSetting", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		good, err := selfSigned(dir, "")
		require.NoError(t, err)
		garbage := filepath.Join(dir, "garbage.pem")
		require.NoError(t, os.WriteFile(garbage, []byte("no PEM"), 0o600))

		require.NoError(t, good.check())
		require.NoError(t, tlsFiles{}.check())
		for files, says := range map[tlsFiles]string{
			{cert: good.cert}:               "REELAY_TLS_KEY (--tls-key) is not set",
			{key: good.key}:                 "REELAY_TLS_CERT (--tls-cert) is not set",
			{good.cert, dir + "/none"}:      "REELAY_TLS_KEY (--tls-key) is ",
			{dir + "/none", good.key}:       "REELAY_TLS_CERT (--tls-cert) is ",
			{garbage, good.key}:             "must be a certificate and its key",
			{cert: good.key, key: good.key}: "must be a certificate and its key",
		} {
			err := files.check()
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "\n")
		}
	})

	t.Run("AreCreatedOnceAndAgainForAnotherHost", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		first, err := selfSigned(dir, "")
		require.NoError(t, err)
		was := fingerprint(first.cert)
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			require.NoError(t, first.covers(host))
		}
		_, err = selfSigned(dir, "127.0.0.1")
		require.NoError(t, err)
		require.Equal(t, was, fingerprint(first.cert))

		_, err = selfSigned(dir, "10.1.2.3")

		require.NoError(t, err)
		require.NotEqual(t, was, fingerprint(first.cert))
		require.NoError(t, first.covers("10.1.2.3"))
		require.Error(t, first.covers("example.com"))
		info, err := os.Stat(first.key)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})

	t.Run("AreReloadedWhenTheyChange", func(t *testing.T) {
		t.Parallel()

		files, err := selfSigned(t.TempDir(), "")
		require.NoError(t, err)
		current := &currentCertificate{files: files}
		first, err := current.get(nil)
		require.NoError(t, err)
		require.NoError(t, writeSelfSigned(files, []string{"localhost"}))
		later := time.Now().Add(time.Minute)
		require.NoError(t, os.Chtimes(files.cert, later, later))
		current.looked = time.Time{}

		second, err := current.get(nil)

		require.NoError(t, err)
		require.NotEqual(t, first.Certificate, second.Certificate)
		require.NoError(t, os.WriteFile(files.cert, []byte("half"), 0o600))
		current.looked = time.Time{}
		third, err := current.get(nil)
		require.NoError(t, err, "the one before goes on")
		require.Equal(t, second.Certificate, third.Certificate)
	})

	t.Run("SecureAListener", func(t *testing.T) {
		t.Parallel()

		files, err := selfSigned(t.TempDir(), "")
		require.NoError(t, err)
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer plain.Close()
		require.Equal(t, plain, tlsFiles{}.secure(plain))
		require.IsType(t, tls.NewListener(plain, nil), files.secure(plain))
	})
}
