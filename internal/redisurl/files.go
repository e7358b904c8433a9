package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/reelay/reelay/internal/freshfile"
)

// secret is a password, or the file that has it.
type secret struct {
	text, file string
	newest     *freshfile.File[string] // what the file has
}

func newSecret(text, file string) secret {
	return secret{text, file, freshfile.New(func() (string, error) { return readPassword(file) }, file)}
}

func (s secret) read() (string, error) {
	if s.file == "" {
		return s.text, nil
	}
	return s.newest.Get()
}

func readPassword(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty: it must have the password", file)
	}
	return text, nil
}

// tlsFiles are PEM files: the authorities that servers are verified by, and a client's
// certificate and key. serverName is the name in the servers' certificates, if it is not the
// host at which they are reached.
type tlsFiles struct{ ca, cert, key, serverName string }

// config reads the files.
func (f tlsFiles) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.ca != "" {
		data, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, errors.New("cert and key: they must be files of a certificate and its key, in PEM: " + err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
