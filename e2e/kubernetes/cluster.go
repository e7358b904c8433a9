// Package kubernetes starts a real API server of Kubernetes on an etcd of its own for tests. `go tool task test:kubernetes`
// compiles it; a test that starts one is skipped unless the environment variable REELAY_KUBERNETES names its folder. There
// are no nodes, no scheduler and no controllers: tests say what becomes of pods, or let [StartNode] do so.
package kubernetes

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/reelay/reelay/internal/testrun"
)

// Namespace is the namespace of the documentation.
const Namespace = "reelay"

// admin is the token of a client that may do everything.
const admin = "admin-of-the-cluster"

// Object is an object of the API.
type Object = map[string]any

// Cluster is a running API server.
type Cluster struct {
	URL string
	// CAFile has the certificate of its authority.
	CAFile string

	t            testing.TB
	dir, program string
	namespace    string
	token        string
	etcd, port   string
	server       *exec.Cmd
	client       *http.Client
}

// Start starts an etcd and an API server with the namespace of the documentation.
func Start(t testing.TB) *Cluster {
	t.Helper()
	folder := os.Getenv("REELAY_KUBERNETES")
	if folder == "" {
		t.Skip("REELAY_KUBERNETES does not name a folder with an API server: `go tool task test:kubernetes` compiles and uses one")
	}
	dir := t.TempDir()
	c := &Cluster{t: t, dir: dir, program: filepath.Join(folder, "kube-apiserver"), etcd: "http://127.0.0.1:" + testrun.FreePort(t),
		port: testrun.FreePort(t), CAFile: filepath.Join(dir, "apiserver.crt"), namespace: Namespace, token: admin}
	c.URL = "https://127.0.0.1:" + c.port
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c.write("accounts.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	c.write("tokens.csv", admin+",admin,admin,system:masters\n")
	c.run("etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", c.etcd, "--advertise-client-urls", c.etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+testrun.FreePort(t), "--unsafe-no-fsync")
	c.StartServer()
	c.Must("POST", "/api/v1/namespaces", Object{"metadata": Object{"name": Namespace}})
	// A controller makes it in a cluster. No pod is admitted before.
	c.Must("POST", c.Path("serviceaccounts"), Object{"metadata": Object{"name": "default"}})
	return c
}

func (c *Cluster) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// run starts a program, whose log the test shows if it fails.
func (c *Cluster) run(program string, args ...string) *exec.Cmd {
	c.t.Helper()
	path := filepath.Join(c.dir, filepath.Base(program)+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd := testrun.Command(c.t, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			text, _ := os.ReadFile(path)
			c.t.Logf("the end of the log of %s:\n%s", program, text[max(0, len(text)-3000):])
		}
	})
	return cmd
}

// StartServer starts the API server, and waits until it answers.
func (c *Cluster) StartServer() {
	c.t.Helper()
	account := filepath.Join(c.dir, "accounts.key")
	c.server = c.run(c.program, "--etcd-servers", c.etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--secure-port", c.port, "--cert-dir", c.dir, "--authorization-mode", "RBAC", "--token-auth-file", filepath.Join(c.dir, "tokens.csv"),
		"--service-account-key-file", account, "--service-account-signing-key-file", account, "--service-account-issuer",
		"https://kubernetes.test",
		"--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none",
		// Pages come from etcd, so that a compaction forgets them, as it does in a cluster that is busy.
		"--feature-gates", "ListFromCacheSnapshot=false", "--etcd-compaction-interval", "0")
	testrun.Eventually(c.t, "the API server answers", func() bool {
		if c.client == nil {
			certificates, err := os.ReadFile(c.CAFile)
			if err != nil {
				return false
			}
			trusted := x509.NewCertPool()
			trusted.AppendCertsFromPEM(certificates)
			c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
		}
		status, _, err := c.try("GET", "/readyz", nil)
		return err == nil && status == http.StatusOK
	})
}

// StopServer kills the API server. etcd keeps what it had.
func (c *Cluster) StopServer() {
	c.t.Helper()
	if err := c.server.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.server.Wait()
}

// Compact makes etcd forget what was before.
func (c *Cluster) Compact() {
	c.t.Helper()
	answer, err := http.Post(c.etcd+"/v3/kv/range", "application/json", strings.NewReader(`{"key": "AA=="}`))
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	var found struct{ Header struct{ Revision string } }
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		c.t.Fatal(err)
	}
	compacted, err := http.Post(c.etcd+"/v3/kv/compaction", "application/json",
		strings.NewReader(`{"revision": "`+found.Header.Revision+`", "physical": true}`))
	if err != nil {
		c.t.Fatal(err)
	}
	defer compacted.Body.Close()
	if text, _ := io.ReadAll(compacted.Body); compacted.StatusCode != http.StatusOK {
		c.t.Fatalf("etcd does not compact: %s", text)
	}
}

// Proxy is a server between a client and the API server.
type Proxy struct{ URL, CAFile string }

// Between starts a server that passes calls on: before sees each, and after the status of its answer.
func (c *Cluster) Between(before func(*http.Request), after func(status int)) Proxy {
	c.t.Helper()
	target, err := url.Parse(c.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.Transport = c.client.Transport
	pass.ModifyResponse = func(answer *http.Response) error { after(answer.StatusCode); return nil }
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before(r)
		pass.ServeHTTP(w, r)
	}))
	c.t.Cleanup(server.Close)
	c.write("between.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return Proxy{server.URL, filepath.Join(c.dir, "between.crt")}
}

// In returns the cluster for calls in another namespace.
func (c *Cluster) In(namespace string) *Cluster {
	other := *c
	other.namespace = namespace
	return &other
}

// As returns the cluster for calls with another token.
func (c *Cluster) As(token string) *Cluster {
	other := *c
	other.token = token
	return &other
}

// Path returns the path of objects of the core in the namespace.
func (c *Cluster) Path(parts ...string) string {
	return "/api/v1/namespaces/" + c.namespace + "/" + strings.Join(parts, "/")
}

// Must makes a call that works.
func (c *Cluster) Must(method, path string, body Object) Object {
	c.t.Helper()
	status, answer := c.Do(method, path, body)
	if status >= 300 {
		c.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

// Do makes a call.
func (c *Cluster) Do(method, path string, body Object) (int, Object) {
	c.t.Helper()
	status, answer, err := c.try(method, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, answer
}

func (c *Cluster) try(method, path string, body Object) (int, Object, error) {
	content := "application/json"
	if method == "PATCH" {
		content = StrategicMerge
	}
	answer, err := c.answer(method, path, content, body)
	return answer.Status, answer.Object, err
}

// The kinds of a PATCH.
const (
	StrategicMerge = "application/strategic-merge-patch+json"
	Merge          = "application/merge-patch+json"
	ServerSide     = "application/apply-patch+yaml" // which JSON is, too
)

// Answer is the answer to a call.
type Answer struct {
	Status int
	Object Object
	// Warnings are what the server finds wrong with a request that it accepts.
	Warnings []string
}

// Send makes a call with a type of content.
func (c *Cluster) Send(method, path, content string, body Object) Answer {
	c.t.Helper()
	answer, err := c.answer(method, path, content, body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

func (c *Cluster) answer(method, path, content string, body Object) (Answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return Answer{}, err
	}
	answer, err := c.send(method, path, content, data)
	if err != nil {
		return Answer{}, err
	}
	defer answer.Body.Close()
	found := Answer{Status: answer.StatusCode, Warnings: answer.Header.Values("Warning")}
	text, err := io.ReadAll(answer.Body)
	if err == nil && bytes.HasPrefix(text, []byte("{")) {
		err = json.Unmarshal(text, &found.Object)
	}
	return found, err
}

func (c *Cluster) send(method, path, content string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", content)
	return c.client.Do(request)
}

// paths are where objects of a kind are.
var paths = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/" + Namespace + "/serviceaccounts",
	"PodTemplate":    "/api/v1/namespaces/" + Namespace + "/podtemplates",
	"Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/" + Namespace + "/roles",
	"RoleBinding":    "/apis/rbac.authorization.k8s.io/v1/namespaces/" + Namespace + "/rolebindings",
}

// ApplyPage creates the objects of a page of the documentation that are in the namespace.
func (c *Cluster) ApplyPage(file string) {
	c.t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	created := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for text := range strings.SplitSeq(block[1], "---\n") {
			var object Object
			if err := yaml.Unmarshal([]byte(unindent(text)), &object); err != nil {
				c.t.Fatal(err)
			}
			kind, _ := object["kind"].(string)
			if path := paths[kind]; path != "" {
				c.Must("POST", path+"?fieldValidation=Strict", object)
				created++
			}
		}
	}
	if created < len(paths) {
		c.t.Fatalf("%s has only %d objects", file, created)
	}
}

// unindent takes away the indent of a block in a list.
func unindent(text string) string {
	first := strings.TrimLeft(text, " ")
	return strings.ReplaceAll("\n"+text, "\n"+text[:len(text)-len(first)], "\n")
}

// Token writes a token of a service account that lives for a time, at least 10 minutes, into a file.
func (c *Cluster) Token(file, account string, life time.Duration) {
	c.t.Helper()
	answer := c.Must("POST", c.Path("serviceaccounts", account, "token"), Object{"spec": Object{"expirationSeconds": int(life.Seconds())}})
	token := answer["status"].(Object)["token"].(string)
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// Status replaces parts of the status of a pod.
func (c *Cluster) Status(pod string, status Object) {
	c.t.Helper()
	c.Must("PATCH", c.Path("pods", pod, "status"), Object{"status": status})
}

// Bind puts a pod on a node, as a scheduler does.
func (c *Cluster) Bind(pod, node string) {
	c.t.Helper()
	c.Must("POST", c.Path("pods", pod, "binding"), Object{"metadata": Object{"name": pod}, "target": Object{"kind": "Node", "name": node}})
}

// End ends a pod on a node, as its kubelet does after the grace period.
func (c *Cluster) End(pod string) {
	c.t.Helper()
	c.Must("DELETE", c.Path("pods", pod), Object{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
}
