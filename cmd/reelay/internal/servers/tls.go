package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
)

// tlsFiles are the PEM files of the certificate and the key of the API. They are empty
// for plain HTTP.
type tlsFiles struct{ cert, key string }

func (f *tlsFiles) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert", f.cert, "PEM file of the certificate for HTTPS (REELAY_TLS_CERT); read again when it changes")
	flags.StringVar(&f.key, "tls-key", f.key, "PEM file of its private key (REELAY_TLS_KEY)")
}

func (f tlsFiles) used() bool { return f.cert != "" }

func (f tlsFiles) scheme() string {
	if f.used() {
		return "https://"
	}
	return "http://"
}

// check returns a one-line error that names the invalid setting.
func (f tlsFiles) check() error {
	switch {
	case f.cert == "" && f.key == "":
		return nil
	case f.key == "":
		return errors.New("REELAY_TLS_KEY (--tls-key) is not set: REELAY_TLS_CERT needs the file of its private key beside it")
	case f.cert == "":
		return errors.New("REELAY_TLS_CERT (--tls-cert) is not set: REELAY_TLS_KEY needs the file of its certificate beside it")
	}
	for name, path := range map[string]string{"REELAY_TLS_CERT (--tls-cert)": f.cert, "REELAY_TLS_KEY (--tls-key)": f.key} {
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Errorf("%s is %q: it must be a file in PEM: %w", name, path, errors.Unwrap(err))
		}
	}
	if _, err := f.load(); err != nil {
		return fmt.Errorf("REELAY_TLS_CERT (--tls-cert) %q and REELAY_TLS_KEY (--tls-key) %q must be a certificate and its key, in PEM: %w",
			f.cert, f.key, err)
	}
	return nil
}

func (f tlsFiles) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	return &pair, err
}

// secure returns the listener with TLS if there is a certificate.
func (f tlsFiles) secure(listener net.Listener) net.Listener {
	if !f.used() {
		return listener
	}
	current := &currentCertificate{files: f}
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: current.get,
	})
}

// currentCertificate is the certificate in its files, read again when they change.
type currentCertificate struct {
	files tlsFiles

	mu     sync.Mutex
	pair   *tls.Certificate
	looked time.Time
	stamp  [2]time.Time
}

// lookAgain is how often the files are checked for changes.
const lookAgain = time.Second

// get returns the newest certificate that could be read together with its key.
func (c *currentCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookAgain && c.pair != nil {
		return c.pair, nil
	}
	c.looked = time.Now()
	stamp := [2]time.Time{changed(c.files.cert), changed(c.files.key)}
	if c.pair != nil && stamp == c.stamp {
		return c.pair, nil
	}
	pair, err := c.files.load()
	if err != nil {
		// One of the two may not be written yet.
		slog.Warn("the TLS certificate could not be read", "cert", c.files.cert, "key", c.files.key, "error", err)
		if c.pair == nil {
			return nil, err
		}
		return c.pair, nil
	}
	c.pair, c.stamp = pair, stamp
	return pair, nil
}

func changed(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// covers returns an error unless the certificate is valid for the host.
func (f tlsFiles) covers(host string) error {
	pair, err := f.load()
	if err != nil {
		return err
	}
	return pair.Leaf.VerifyHostname(host)
}

const (
	selfSignedFor   = 365 * day
	selfSignedRenew = 30 * day
)

// selfSigned returns a self-signed certificate for this machine and host. It creates one
// in the folder unless a valid one exists. Clients need the file to trust it.
func selfSigned(dir string, more ...string) (tlsFiles, error) {
	files := tlsFiles{cert: filepath.Join(dir, "tls-cert.pem"), key: filepath.Join(dir, "tls-key.pem")}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, host := range more {
		if host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if pair, err := files.load(); err == nil && time.Until(pair.Leaf.NotAfter) > selfSignedRenew &&
		!slices.ContainsFunc(hosts, func(h string) bool { return pair.Leaf.VerifyHostname(h) != nil }) {
		return files, nil
	}
	if err := writeSelfSigned(files, hosts); err != nil {
		return files, fmt.Errorf("make a certificate in %s: %w", dir, err)
	}
	return files, nil
}

func writeSelfSigned(files tlsFiles, hosts []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Reelay, self-signed"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(selfSignedFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for path, block := range map[string]*pem.Block{files.key: {Type: "PRIVATE KEY", Bytes: secret},
		files.cert: {Type: "CERTIFICATE", Bytes: cert}} {
		fresh := path + ".new"
		if err := os.WriteFile(fresh, pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
		if err := os.Rename(fresh, path); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint returns the SHA-256 fingerprint of a certificate.
func fingerprint(certFile string) string {
	text, err := os.ReadFile(certFile)
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return "unknown"
	}
	sum := sha256.Sum256(block.Bytes)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}
