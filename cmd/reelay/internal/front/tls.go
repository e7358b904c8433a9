package front

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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/internal/freshfile"
	"github.com/spf13/pflag"
)

// TLSFiles are the PEM files of the certificate and the key of the API. They are empty
// for plain HTTP.
type TLSFiles struct{ Cert, Key string }

// AddFlags adds the flags that set the files.
func (f *TLSFiles) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Cert, "tls-cert", f.Cert, "PEM file of the certificate for HTTPS (REELAY_TLS_CERT); read again when it changes")
	flags.StringVar(&f.Key, "tls-key", f.Key, "PEM file of its private key (REELAY_TLS_KEY)")
}

// Used reports whether there is a certificate.
func (f TLSFiles) Used() bool { return f.Cert != "" }

// Scheme returns http:// or https://.
func (f TLSFiles) Scheme() string {
	if f.Used() {
		return "https://"
	}
	return "http://"
}

// Check returns a one-line error that names the invalid setting.
func (f TLSFiles) Check() error {
	switch {
	case f.Cert == "" && f.Key == "":
		return nil
	case f.Key == "":
		return errors.New("REELAY_TLS_KEY (--tls-key) is not set: REELAY_TLS_CERT needs the file of its private key beside it")
	case f.Cert == "":
		return errors.New("REELAY_TLS_CERT (--tls-cert) is not set: REELAY_TLS_KEY needs the file of its certificate beside it")
	}
	for name, path := range map[string]string{"REELAY_TLS_CERT (--tls-cert)": f.Cert, "REELAY_TLS_KEY (--tls-key)": f.Key} {
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Errorf("%s is %q: it must be a file in PEM: %w", name, path, errors.Unwrap(err))
		}
	}
	if _, err := f.load(); err != nil {
		return fmt.Errorf("REELAY_TLS_CERT (--tls-cert) %q and REELAY_TLS_KEY (--tls-key) %q must be a certificate and its key, in PEM: %w",
			f.Cert, f.Key, err)
	}
	return nil
}

func (f TLSFiles) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	return &pair, err
}

// secure returns the listener with TLS if there is a certificate.
func (f TLSFiles) secure(listener net.Listener) net.Listener {
	if !f.Used() {
		return listener
	}
	current := freshfile.New(f.load, f.Cert, f.Key)
	return tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Get() },
	})
}

// Covers returns an error unless the certificate is valid for the host.
func (f TLSFiles) Covers(host string) error {
	pair, err := f.load()
	if err != nil {
		return err
	}
	return pair.Leaf.VerifyHostname(host)
}

const (
	selfSignedFor   = 365 * 24 * time.Hour
	selfSignedRenew = 30 * 24 * time.Hour
)

// SelfSigned returns a self-signed certificate for this machine and host. It creates one
// in the folder unless a valid one exists. Clients need the file to trust it.
func SelfSigned(dir string, more ...string) (TLSFiles, error) {
	files := TLSFiles{Cert: filepath.Join(dir, "tls-cert.pem"), Key: filepath.Join(dir, "tls-key.pem")}
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

func writeSelfSigned(files TLSFiles, hosts []string) error {
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
	for path, block := range map[string]*pem.Block{files.Key: {Type: "PRIVATE KEY", Bytes: secret},
		files.Cert: {Type: "CERTIFICATE", Bytes: cert}} {
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

// Fingerprint returns the SHA-256 fingerprint of a certificate.
func Fingerprint(certFile string) string {
	text, err := os.ReadFile(certFile)
	block, _ := pem.Decode(text)
	if err != nil || block == nil {
		return "unknown"
	}
	sum := sha256.Sum256(block.Bytes)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}
