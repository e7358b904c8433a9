package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/reelay/reelay/gpu/metadata"
	"github.com/reelay/reelay/internal/engine"
	"github.com/reelay/reelay/internal/freshfile"
	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/yamlfile"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
)

// secretsFile is the file of --engine-secrets.
type secretsFile struct {
	Engines []struct {
		URL string `yaml:"url"`
		// Provider stands for the address of a hosted provider, and Key is the key of the account there, or for
		// Google's the file of an account's credentials: CredentialsFile.
		Provider        string            `yaml:"provider"`
		Key             string            `yaml:"key"`
		CredentialsFile string            `yaml:"credentialsFile"`
		Headers         map[string]string `yaml:"headers"`
		CAFile          string            `yaml:"caFile"`
	} `yaml:"engines"`
}

// secretsOf are what the calls of one engine need.
type secretsOf struct {
	header http.Header
	caFile string
	token  oauth2.TokenSource // of an account at Google, or nil
}

// Targets makes the targets of engines with what a file of secrets says of them. The headers are
// read again when the file changes.
type Targets struct {
	file *freshfile.File[map[string]secretsOf]
}

// NewTargets reads a file of secrets. An empty path means that there are none. It refuses a file
// that other users can read.
func NewTargets(path string) (*Targets, error) {
	if path == "" {
		return &Targets{}, nil
	}
	t := &Targets{freshfile.New(func() (map[string]secretsOf, error) { return readSecrets(path) }, path)}
	if _, err := t.file.Get(); err != nil {
		return nil, fmt.Errorf("--engine-secrets: %w", err)
	}
	return t, nil
}

// Target returns the target of an address.
func (t *Targets) Target(address string) Target {
	target := Target{URL: address}
	if t.file == nil {
		return target
	}
	target.Secrets = func() (http.Header, error) {
		all, err := t.file.Get()
		if err != nil || all[address].token == nil {
			return all[address].header, err
		}
		token, err := all[address].token.Token()
		if err != nil {
			return nil, fmt.Errorf("get a token of the Google account: %w", err)
		}
		header := all[address].header.Clone()
		header.Set("Authorization", "Bearer "+token.AccessToken)
		return header, nil
	}
	if all, err := t.file.Get(); err == nil && all[address].caFile != "" {
		target.TLS = trust(all[address].caFile)
	}
	return target
}

// trust returns a configuration that trusts the certificates of a file besides the system's. The
// file was read once before; if it is gone now, the calls fail.
func trust(path string) *tls.Config {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if data, err := os.ReadFile(path); err == nil {
		pool.AppendCertsFromPEM(data)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// googleToken returns the access tokens of the service account of a file of credentials, or without one of the
// account of this machine. Google's own package would do the same with much of Google's cloud behind it.
func googleToken(path string) (oauth2.TokenSource, error) {
	if path == "" {
		return oauth2.ReuseTokenSource(nil, machineAccount{}), nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var account struct {
		Type     string `json:"type"`
		Email    string `json:"client_email"`
		Key      string `json:"private_key"`
		KeyID    string `json:"private_key_id"`
		TokenURL string `json:"token_uri"`
	}
	if err := json.Unmarshal(data, &account); err != nil || account.Type != "service_account" || account.Email == "" || account.Key == "" {
		return nil, errors.New("it is no file of a service account's credentials") // the file holds a key
	}
	config := jwt.Config{
		Email: account.Email, PrivateKey: []byte(account.Key), PrivateKeyID: account.KeyID, Scopes: []string{cloudScope},
		TokenURL: cmp.Or(account.TokenURL, "https://oauth2.googleapis.com/token"),
	}
	return config.TokenSource(context.Background()), nil
}

const cloudScope = "https://www.googleapis.com/auth/cloud-platform"

// machineAccount is the service account of this machine at Google.
type machineAccount struct{}

// Token implements oauth2.TokenSource.
func (machineAccount) Token() (*oauth2.Token, error) {
	token, valid, err := metadata.Token(context.Background())
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: token, TokenType: "Bearer", Expiry: time.Now().Add(valid)}, nil
}

func readSecrets(path string) (map[string]secretsOf, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s contains secrets and can be read by other users: run `chmod 600 %s`", path, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read secretsFile
	file, err := yamlfile.Read(filepath.Base(path), "engines", data, &read)
	if err != nil {
		return nil, err
	}
	all := map[string]secretsOf{}
	for i, entry := range read.Engines {
		place := fmt.Sprintf("$.engines[%d]", i)
		hosted := provider.Find(entry.Provider)
		if entry.Provider != "" && hosted == nil {
			file.Problem(place+".provider", "there is no provider %.40q", entry.Provider)
			continue
		}
		if hosted != nil && entry.URL == "" {
			entry.URL = hosted.URL
		}
		address, err := engine.ParseURL(entry.URL)
		if err != nil {
			file.Problem(place+".url", "%s", err)
		}
		s := secretsOf{header: http.Header{}, caFile: entry.CAFile}
		switch {
		case hosted == nil && (entry.Key != "" || entry.CredentialsFile != ""):
			file.Problem(place+".provider", "key and credentialsFile need the provider whose they are")
		case hosted != nil && hosted.Auth == provider.GoogleAccount:
			if s.token, err = googleToken(entry.CredentialsFile); err != nil {
				file.Problem(place+".credentialsFile", "%s", err)
			}
		case hosted != nil && (entry.Key == "" || !httpguts.ValidHeaderFieldValue(entry.Key)):
			file.Problem(place+".key", "key is missing, or has characters that HTTP does not allow")
		case hosted != nil:
			s.header = hosted.Auth.Header(entry.Key)
		}
		for name, value := range entry.Headers {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				file.Problem(place+".headers", "a header has a name or a value that HTTP does not allow")
				continue
			}
			s.header.Set(name, value)
		}
		if entry.CAFile != "" {
			if pem, err := os.ReadFile(entry.CAFile); err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
				file.Problem(place+".caFile", "caFile cannot be read, or has no certificate in PEM")
			}
		}
		all[address] = s
	}
	return all, file.Err()
}
