package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// TrustFile returns an Option that makes a Client also trust the certificates in a PEM
// file, such as those of a private CA. With an empty path the option does nothing.
// TrustFile returns an error if the file cannot be read or has no certificate.
func TrustFile(path string) (Option, error) {
	if path == "" {
		return func(*Client) {}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificates to trust: %w", err)
	}
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool()
	}
	if !trusted.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM format", path)
	}
	transport := newTransport().(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	return WithTransport(transport), nil
}
