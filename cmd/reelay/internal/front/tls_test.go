package front

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTLSFiles(t *testing.T) {
	t.Parallel()

	t.Run("NameTheInvalidSetting", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		good, err := SelfSigned(dir, "")
		require.NoError(t, err)
		garbage := filepath.Join(dir, "garbage.pem")
		require.NoError(t, os.WriteFile(garbage, []byte("no PEM"), 0o600))

		require.NoError(t, good.Check())
		require.NoError(t, TLSFiles{}.Check())
		for files, says := range map[TLSFiles]string{
			{Cert: good.Cert}:               "REELAY_TLS_KEY (--tls-key) is not set",
			{Key: good.Key}:                 "REELAY_TLS_CERT (--tls-cert) is not set",
			{good.Cert, dir + "/none"}:      "REELAY_TLS_KEY (--tls-key) is ",
			{dir + "/none", good.Key}:       "REELAY_TLS_CERT (--tls-cert) is ",
			{garbage, good.Key}:             "must be a certificate and its key",
			{Cert: good.Key, Key: good.Key}: "must be a certificate and its key",
		} {
			err := files.Check()
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "\n")
		}
	})

	t.Run("AreCreatedOnceAndAgainForAnotherHost", func(t *testing.T) {
		t.Parallel()

		dir := t.TempDir()
		first, err := SelfSigned(dir, "")
		require.NoError(t, err)
		was := Fingerprint(first.Cert)
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			require.NoError(t, first.Covers(host))
		}
		_, err = SelfSigned(dir, "127.0.0.1")
		require.NoError(t, err)
		require.Equal(t, was, Fingerprint(first.Cert))

		_, err = SelfSigned(dir, "10.1.2.3")

		require.NoError(t, err)
		require.NotEqual(t, was, Fingerprint(first.Cert))
		require.NoError(t, first.Covers("10.1.2.3"))
		require.Error(t, first.Covers("example.com"))
		info, err := os.Stat(first.Key)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})

	t.Run("AreReloadedWhenTheyChange", func(t *testing.T) {
		t.Parallel()

		files, err := SelfSigned(t.TempDir(), "")
		require.NoError(t, err)
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server := &http.Server{Handler: http.NotFoundHandler()}
		go server.Serve(files.secure(plain))
		defer server.Close()
		shown := func() string {
			conn, err := tls.Dial("tcp", plain.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			require.NoError(t, err)
			defer conn.Close()
			return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
		}
		first := shown()
		require.NoError(t, writeSelfSigned(files, []string{"localhost"}))
		second := shown()
		require.NotEqual(t, first, second)

		require.NoError(t, os.WriteFile(files.Cert, []byte("half"), 0o600))

		require.Equal(t, second, shown(), "the former certificate stays in use")
	})

	t.Run("SecureAListener", func(t *testing.T) {
		t.Parallel()

		files, err := SelfSigned(t.TempDir(), "")
		require.NoError(t, err)
		plain, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer plain.Close()
		require.Equal(t, plain, TLSFiles{}.secure(plain))
		require.IsType(t, tls.NewListener(plain, nil), files.secure(plain))
	})
}
