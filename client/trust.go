package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// TrustFile returns an Option by which a Client also trusts the certificates in a
// file, in PEM, such as those of a private CA; "" adds none. It is an error if
// the file cannot be read or holds none.
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
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	transport := newTransport().(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted}
	return WithTransport(transport), nil
}
