package connect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/credentials"
	"github.com/reelay/reelay/cmd/reelay/internal/input"
	"github.com/reelay/reelay/cmd/reelay/internal/terminal"
	"github.com/reelay/reelay/internal/text"
	"github.com/spf13/cobra"
)

// Target is the API that a command calls, and its key.
type Target struct {
	endpoint string
	key      string
	data     string
	caFile   string
	// the role of the default key
	Operator, Admin bool
	// as is the role that the user chose instead, or ""
	as string

	context string // the name of a context
	// dataGiven means that the user chose the folder in data.
	dataGiven bool

	// ownClient means that the key is the client key of a running `up`, beside which there are others.
	ownClient bool
	// keySource says where the key of the client came from; storedCA is the CA file of the context.
	keySource, storedCA string
}

// AddFlags adds the flags that name the API and the key.
func (t *Target) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.endpoint, "endpoint", "", "address of the API (default: REELAY_ENDPOINT, else that of the running 'reelay up')")
	flags.StringVar(&t.key, "key", "", "API key; prefer REELAY_API_KEY, which other users of this machine cannot see")
	flags.StringVar(&t.context, "context", "", "context of 'reelay login' to use (default: REELAY_CONTEXT, else the current one)")
	t.data = ".reelay"
	flags.Var(&dataFlag{t}, "data", "data folder of the running 'reelay up'")
	flags.StringVar(&t.as, "as", "",
		"whose key of the running 'reelay up' to use: client, operator or admin (default: the one that the command needs)")
	flags.StringVar(&t.caFile, "ca-file", "", "PEM file of certificates to trust besides the system's (default: REELAY_CA_FILE)")
}

// Client returns a client of the API. Flags take precedence over the environment, and the
// environment over the credentials of a running `up`.
func (t *Target) Client(warnings io.Writer) (*client.Client, error) {
	if t.key != "" {
		fmt.Fprintln(warnings, "reelay: other users of this machine can see the value of --key: set REELAY_API_KEY instead")
	}
	endpoint, key, err := t.resolve(os.Getenv)
	if err != nil {
		return nil, err
	}
	waits := client.WithWaits(func(last *client.Error, pause time.Duration) {
		if pause >= time.Second { // a shorter pause ends before the line is read
			fmt.Fprintf(warnings, "reelay: waiting for %s, then trying again: %s\n", text.Duration(pause.Round(time.Second)), last.Message)
		}
	})
	return NewClient(endpoint, key, input.First(t.caFile, os.Getenv("REELAY_CA_FILE"), t.storedCA, t.ownCertificate(endpoint)), waits)
}

// NewClient returns a client that also trusts the certificates in caFile, unless it is
// empty.
func NewClient(endpoint, key, caFile string, options ...client.Option) (*client.Client, error) {
	trust, err := client.TrustFile(caFile)
	if err != nil {
		return nil, err
	}
	return client.New(endpoint, key, append(options, trust)...)
}

// ownCertificate returns the file of the self-signed certificate of a running `up`, if
// the endpoint is its own.
func (t *Target) ownCertificate(endpoint string) string {
	running, err := credentials.Read(t.data)
	if err != nil || strings.TrimSuffix(endpoint, "/") != strings.TrimSuffix(running.Endpoint, "/") {
		return ""
	}
	return running.CAFile
}

// resolve finds the address and the key. The sources, the first that is given wins: flags, the
// environment, the folder of a running `up` that --data names, the current context, and the
// folder of a running `up` here. A key is only sent to the API that it belongs to, except one
// that the user names without an address.
func (t *Target) resolve(getenv func(string) string) (endpoint, key string, err error) {
	if t.as != "" {
		return t.asRole(input.First(t.endpoint, getenv("REELAY_ENDPOINT")))
	}
	stored, err := t.stored(getenv)
	if err != nil {
		return "", "", err
	}
	endpoint = strings.TrimSpace(t.endpoint)
	key, t.keySource = strings.TrimSpace(t.key), "--key"
	if t.context == "" { // it takes precedence over the environment
		endpoint = input.First(endpoint, getenv("REELAY_ENDPOINT"))
		if key == "" {
			key, t.keySource = strings.TrimSpace(getenv("REELAY_API_KEY")), "REELAY_API_KEY"
		}
	}
	if endpoint != "" && key != "" {
		return endpoint, key, nil
	}
	if stored != nil && (endpoint == "" || sameEndpoint(endpoint, stored.Endpoint)) {
		if t.storedCA = stored.CAFile; key == "" {
			key, t.keySource = stored.Key, "the context "+stored.Name
		}
		return input.First(endpoint, stored.Endpoint), key, nil
	}
	return t.running(endpoint, key)
}

// Roles are the values of --as.
var Roles = []string{"client", "operator", "admin"}

// asRole is resolve with --as: it takes the key from the folder of a running `up`, whatever the environment and
// the contexts say.
func (t *Target) asRole(endpoint string) (string, string, error) {
	t.as = strings.ToLower(t.as)
	switch {
	case !slices.Contains(Roles, t.as):
		return "", "", terminal.UsageError(nil, fmt.Errorf("--as is %q: it must be client, operator or admin", t.as))
	case t.key != "":
		return "", "", errors.New("--key and --as are both given: use one of them")
	case t.context != "":
		return "", "", errors.New("--context and --as are both given: a context has one key; use one of them")
	}
	t.Operator, t.Admin = t.as == "operator", t.as == "admin"
	endpoint, key, err := t.running(endpoint, "")
	if _, missing := os.Stat(filepath.Join(t.data, credentials.FileName)); errors.Is(missing, fs.ErrNotExist) {
		return "", "", fmt.Errorf("--as takes a key of a running `reelay up`, and there is no %s: "+
			"name its folder with --data, or set REELAY_API_KEY instead",
			filepath.Join(t.data, credentials.FileName))
	}
	return endpoint, key, err
}

// stored returns the context that applies, or nil: that of --context or REELAY_CONTEXT, or the
// current one, unless --data names the folder of an `up`.
func (t *Target) stored(getenv func(string) string) (*apiContext, error) {
	name := input.First(t.context, getenv("REELAY_CONTEXT"))
	if name == "" && t.dataGiven {
		return nil, nil
	}
	all, err := readContexts(getenv)
	switch {
	case err != nil && name == "" && errors.Is(err, errNoConfig):
		return nil, nil
	case err != nil:
		return nil, err
	case name != "":
		return all.get(name)
	}
	return all.find(all.Current), nil
}

// running completes the address and the key with those of a running `up`.
func (t *Target) running(endpoint, key string) (string, string, error) {
	running, err := credentials.Read(t.data)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", t.missing(endpoint, key)
	}
	if err != nil {
		return "", "", err
	}
	if endpoint == "" {
		endpoint = running.Endpoint
	}
	if key != "" {
		return endpoint, key, nil
	}
	// A key is only sent to the API that created it.
	if !sameEndpoint(endpoint, running.Endpoint) {
		return "", "", t.missing(endpoint, key)
	}
	t.keySource = filepath.Join(t.data, credentials.FileName)
	t.ownClient = !t.Admin && !t.Operator
	switch {
	case t.Admin:
		return endpoint, running.AdminKey, nil
	case t.Operator:
		return endpoint, running.OperatorKey, nil
	}
	return endpoint, running.ClientKey, nil
}

func sameEndpoint(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// dataFlag is the flag --data, which remembers that it was given.
type dataFlag struct{ *Target }

// Set implements [pflag.Value].
func (f *dataFlag) Set(folder string) error {
	f.data, f.dataGiven = folder, true
	return nil
}

// String implements [pflag.Value].
func (f *dataFlag) String() string {
	if f.Target == nil {
		return ""
	}
	return f.data
}

// Type implements [pflag.Value].
func (f *dataFlag) Type() string { return "string" }

func (t *Target) missing(endpoint, key string) error {
	switch {
	case endpoint != "":
		return fmt.Errorf("there is no key for %s: set REELAY_API_KEY", endpoint)
	case key != "":
		return errors.New("there is a key but no endpoint: set REELAY_ENDPOINT or --endpoint")
	}
	return fmt.Errorf("no API is configured: start one with `reelay up`, log in to one with `reelay login`, "+
		"or set REELAY_ENDPOINT and REELAY_API_KEY (there is no %s)",
		filepath.Join(t.data, credentials.FileName))
}
