package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

// target is the API that a command calls, and its key.
type target struct {
	endpoint string
	key      string
	data     string
	caFile   string
	// the role of the default key
	operator, admin bool

	// keySource says where the key of the client came from.
	keySource string
}

func (t *target) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.endpoint, "endpoint", "", "address of the API (default: REELAY_ENDPOINT, else that of the running 'reelay up')")
	flags.StringVar(&t.key, "key", "", "API key; prefer REELAY_API_KEY, which other users of this machine cannot see")
	flags.StringVar(&t.data, "data", ".reelay", "data folder of the running 'reelay up'")
	flags.StringVar(&t.caFile, "ca-file", "", "PEM file of certificates to trust besides the system's (default: REELAY_CA_FILE)")
}

// client returns a client of the API. Flags take precedence over the environment, and the
// environment over the credentials of a running `up`.
func (t *target) client(warnings io.Writer) (*client.Client, error) {
	if t.key != "" {
		fmt.Fprintln(warnings, "reelay: other users of this machine can see the value of --key: set REELAY_API_KEY instead")
	}
	endpoint, key, err := t.resolve(os.Getenv)
	if err != nil {
		return nil, err
	}
	waits := client.WithWaits(func(last *client.Error, pause time.Duration) {
		if pause >= time.Second { // a shorter pause ends before the line is read
			fmt.Fprintf(warnings, "reelay: waiting for %s, then trying again: %s\n", pause.Round(time.Second), last.Message)
		}
	})
	return newClient(endpoint, key, firstOf(t.caFile, os.Getenv("REELAY_CA_FILE"), t.ownCertificate(endpoint)), waits)
}

// newClient returns a client that also trusts the certificates in caFile, unless it is
// empty.
func newClient(endpoint, key, caFile string, options ...client.Option) (*client.Client, error) {
	trust, err := client.TrustFile(caFile)
	if err != nil {
		return nil, err
	}
	return client.New(endpoint, key, append(options, trust)...)
}

// ownCertificate returns the file of the self-signed certificate of a running `up`, if
// the endpoint is its own.
func (t *target) ownCertificate(endpoint string) string {
	running, err := readCredentials(t.data)
	if err != nil || strings.TrimSuffix(endpoint, "/") != strings.TrimSuffix(running.Endpoint, "/") {
		return ""
	}
	return running.CAFile
}

func (t *target) resolve(getenv func(string) string) (endpoint, key string, err error) {
	endpoint = firstOf(t.endpoint, getenv("REELAY_ENDPOINT"))
	key = firstOf(t.key, getenv("REELAY_API_KEY"))
	t.keySource = "REELAY_API_KEY"
	if t.key != "" {
		t.keySource = "--key"
	}
	if endpoint != "" && key != "" {
		return endpoint, key, nil
	}
	running, err := readCredentials(t.data)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", t.missing(endpoint, key)
	}
	if err != nil {
		return "", "", err
	}
	if endpoint == "" {
		endpoint = running.Endpoint
	}
	if key == "" {
		t.keySource = filepath.Join(t.data, credentialsFile)
		// A key is only sent to the API that created it.
		if strings.TrimSuffix(endpoint, "/") != strings.TrimSuffix(running.Endpoint, "/") {
			return "", "", t.missing(endpoint, key)
		}
		switch {
		case t.admin:
			key = running.AdminKey
		case t.operator:
			key = running.OperatorKey
		default:
			key = running.ClientKey
		}
	}
	return endpoint, key, nil
}

func (t *target) missing(endpoint, key string) error {
	switch {
	case endpoint != "":
		return fmt.Errorf("there is no key for %s: set REELAY_API_KEY", endpoint)
	case key != "":
		return errors.New("there is a key but no endpoint: set REELAY_ENDPOINT or --endpoint")
	}
	return fmt.Errorf("no API is configured: start one with `reelay up`, or set REELAY_ENDPOINT and REELAY_API_KEY (there is no %s)",
		filepath.Join(t.data, credentialsFile))
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	return ""
}

// readCredentials reads the credentials of a running `up` from its data folder. It
// refuses a file that other users can read.
func readCredentials(data string) (credentials, error) {
	var c credentials
	path := filepath.Join(data, credentialsFile)
	file, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return c, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return c, fmt.Errorf("%s contains keys and can be read by other users: run `chmod 600 %s`", path, path)
	}
	if err := json.NewDecoder(io.LimitReader(file, 64<<10)).Decode(&c); err != nil {
		return c, fmt.Errorf("%s was not written by `reelay up`: %w; restart it", path, err)
	}
	return c, nil
}
