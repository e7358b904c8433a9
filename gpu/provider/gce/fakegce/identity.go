package fakegce

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	compute "google.golang.org/api/compute/v1"
)

// Issuer signs the identity tokens of machines, as Google does.
type Issuer struct {
	// URL is the address of its keys.
	URL string

	http *httptest.Server
	key  *rsa.PrivateKey
}

// keyID is the id of the issuer's only key.
const keyID = "fake"

// StartIssuer starts an issuer with a new key.
func StartIssuer() (*Issuer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	i := &Issuer{key: key}
	i.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: keyID, Algorithm: "RS256",
			Use: "sig"}}})
	}))
	i.URL = i.http.URL
	return i, nil
}

// Close ends the issuer.
func (i *Issuer) Close() { i.http.Close() }

// Token returns a new token in which a machine proves its identity to an audience, with its claims edited.
func (i *Issuer) Token(audience string, machine *compute.Instance, edits ...func(claims map[string]any)) (string, error) {
	now := time.Now()
	all := map[string]any{
		"iss": "https://accounts.google.com", "aud": audience, "sub": "1", "azp": "1", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"email": "worker@" + Project + ".iam.gserviceaccount.com", "email_verified": true,
		"google": map[string]any{"compute_engine": map[string]string{
			"project_id": Project, "zone": zoneOf(machine), "instance_id": strconv.FormatUint(machine.Id, 10),
			"instance_name": machine.Name,
		}},
	}
	for _, edit := range edits {
		edit(all)
	}
	claims, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithHeader("kid", keyID).WithType("JWT")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: i.key}, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

func zoneOf(machine *compute.Instance) string {
	return machine.Zone[strings.LastIndexByte(machine.Zone, '/')+1:]
}

// Metadata is the metadata server of one machine: it gives identity tokens, and says whether the machine is preempted.
type Metadata struct {
	// Host is its host and port, for GCE_METADATA_HOST.
	Host string

	http      *httptest.Server
	closing   chan struct{}
	preempted chan struct{} // closed once it is
}

// StartMetadata starts the metadata server of a machine.
func StartMetadata(issuer *Issuer, machine *compute.Instance) *Metadata {
	return startMetadata(issuer, machine, func(string, string) bool { return false })
}

// startMetadata also takes the guest attributes of the machine: put reports whether they are enabled.
func startMetadata(issuer *Issuer, machine *compute.Instance, put func(path, value string) bool) *Metadata {
	m := &Metadata{closing: make(chan struct{}), preempted: make(chan struct{})}
	m.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		w.Header().Set("ETag", "1")
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
			return
		}
		if r.URL.Query().Get("wait_for_change") == "true" {
			select {
			case <-m.closing:
			case <-m.noticed(r):
			case <-r.Context().Done():
			}
		}
		path := strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/instance/")
		if attribute, ok := strings.CutPrefix(path, "attributes/"); ok {
			value := attributeOf(machine, attribute)
			if value == "" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(value))
			return
		}
		if attribute, ok := strings.CutPrefix(path, "guest-attributes/"); ok && r.Method == http.MethodPut {
			value, err := io.ReadAll(io.LimitReader(r.Body, 256<<10))
			if err != nil || !put(attribute, string(value)) {
				http.Error(w, "Guest attributes endpoint access is disabled.", http.StatusForbidden)
			}
			return
		}
		switch path {
		case "service-accounts/default/identity":
			if len(machine.ServiceAccounts) == 0 {
				http.NotFound(w, r)
				return
			}
			token, err := issuer.Token(r.URL.Query().Get("audience"), machine)
			if err != nil || r.URL.Query().Get("format") != "full" {
				http.Error(w, "no token", http.StatusBadRequest)
				return
			}
			_, _ = w.Write([]byte(token))
		case "preempted":
			_, _ = w.Write([]byte(m.answer()))
		case "maintenance-event":
			_, _ = w.Write([]byte("NONE"))
		default:
			http.NotFound(w, r)
		}
	}))
	m.Host = strings.TrimPrefix(m.http.URL, "http://")
	return m
}

// attributeOf returns an attribute of a machine's metadata, or "".
func attributeOf(machine *compute.Instance, name string) string {
	if machine.Metadata == nil {
		return ""
	}
	for _, item := range machine.Metadata.Items {
		if item.Key == name && item.Value != nil {
			return *item.Value
		}
	}
	return ""
}

// Preempt gives the machine notice that it is about to be preempted.
func (m *Metadata) Preempt() { close(m.preempted) }

// noticed returns a channel that is closed once the value that a request waits for has changed.
func (m *Metadata) noticed(r *http.Request) <-chan struct{} {
	if strings.HasSuffix(r.URL.Path, "/preempted") {
		return m.preempted
	}
	return nil
}

// answer is the value of preempted.
func (m *Metadata) answer() string {
	select {
	case <-m.preempted:
		return "TRUE"
	default:
		return "FALSE"
	}
}

// Close ends the server.
func (m *Metadata) Close() {
	close(m.closing)
	m.http.CloseClientConnections()
	m.http.Close()
}
