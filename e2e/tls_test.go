package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

// TestTLS serves HTTPS with a certificate of a private CA, as in a company. Only clients that
// are configured with the CA must trust it.
func TestTLS(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	ca := issue(t, dir)
	s, err := launchWith([]string{"REELAY_CA_FILE=" + ca}, dataDir(t), "--agents", "1",
		"--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	s.endWith(t)

	t.Run("IsTrustedByTheGoClientAndTheAgent", func(t *testing.T) {
		trust, err := client.TrustFile(ca)
		require.NoError(t, err)
		c, err := client.New(s.keys.Endpoint, s.keys.ClientKey, trust)
		require.NoError(t, err)

		done := until(t, c, submit(t, c, "a sealed letter", 0.5, 0), completed)

		require.NotEmpty(t, frames(t, c, done))
	})

	t.Run("IsTrustedByTheCLI", func(t *testing.T) {
		cmd := testrun.Command(t, reelay, "list", "--data", s.data)
		cmd.Env = append(os.Environ(), "REELAY_CA_FILE="+ca)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "COMPLETED")
	})

	t.Run("IsTrustedByNode", func(t *testing.T) {
		example, err := filepath.Abs(filepath.Join(nodePackages, "../example.mjs"))
		require.NoError(t, err)
		if _, err := os.Stat(nodePackages); err != nil {
			t.Skip("its packages are not there: `go tool task clients` fetches them")
		}
		cmd := testrun.Command(t, "node", example)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "REELAY_ENDPOINT="+s.keys.Endpoint, "REELAY_API_KEY="+s.keys.ClientKey, "NODE_EXTRA_CA_CERTS="+ca)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "h264,720,1280,96", probeVideo(t, filepath.Join(cmd.Dir, "boat.mp4")))
	})

	t.Run("IsTrustedByNobodyElse", func(t *testing.T) {
		c, err := client.New(s.keys.Endpoint, s.keys.ClientKey, client.WithTries(1))
		require.NoError(t, err)

		_, err = c.Viewer(t.Context())

		require.ErrorContains(t, err, "certificate signed by unknown authority")
	})
}

// issue writes cert.pem and key.pem for this machine, and returns the file with the
// certificate of the CA that signed them.
func issue(t *testing.T, dir string) (ca string) {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a private CA"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "reelay"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	write := func(name, kind string, der []byte, err error) string {
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, authorityKey)
	write("cert.pem", "CERTIFICATE", signed, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	write("key.pem", "PRIVATE KEY", secret, err)
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	return write("ca.pem", "CERTIFICATE", root, err)
}
