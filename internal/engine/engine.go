// Package engine says what an engine is: a server that renders, such as ComfyUI, which an agent
// drives over HTTP. A pool of engines lists their addresses and their kind.
package engine

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/provider"
	"github.com/reelay/reelay/internal/text"
)

// Provider is the provider of the workers of engines. An engine's worker has the name of its
// engine as the id of its machine, so that an engine has one worker at most.
const Provider = "engines"

// Kind is the interface that an engine speaks. It is also the name of the runtime with which the
// models of the catalogue ask for such engines.
type Kind string

// The kinds of engines.
const (
	ComfyUI   Kind = "comfyui"
	VideosAPI Kind = "videos-api"
	Cog       Kind = "cog"
)

// Kinds are all kinds: the servers that an operator runs, and the hosted providers.
var Kinds = append([]Kind{ComfyUI, VideosAPI, Cog}, hosted()...)

func hosted() (kinds []Kind) {
	for _, a := range provider.All {
		kinds = append(kinds, Kind(a.Name))
	}
	return kinds
}

// Hosted returns how the provider of a kind is spoken to, or nil if engines of the kind are an operator's
// own servers.
func (k Kind) Hosted() *provider.Adapter { return provider.Find(string(k)) }

// List names all kinds for a sentence.
func List() string {
	return text.Join(Kinds[:len(Kinds)-1]) + " or " + string(Kinds[len(Kinds)-1])
}

// ParseKind returns the kind of a name, or an error that lists the kinds.
func ParseKind(name string) (Kind, error) {
	if kind := Kind(name); slices.Contains(Kinds, kind) {
		return kind, nil
	}
	return "", fmt.Errorf("there is no kind of engine %.40q: it must be %s", name, List())
}

// maxURL bounds the address of an engine, in bytes.
const maxURL = 200

var validPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// ParseURL returns the address of an engine in its one form, without a slash at the end. Its error
// says what is wrong with it. An address has no user, query or fragment: secrets of an engine come
// from a file, since an address is shown and logged.
func ParseURL(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > maxURL:
		return "", fmt.Errorf("the address of an engine may have %d bytes", maxURL)
	case err != nil: // which would quote the address, and perhaps a password
		return "", fmt.Errorf("the address of an engine is not a URL: write it as http://gpu-1:8188")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return "", fmt.Errorf("the address of an engine must begin with http:// or https:// and name a host, such as http://gpu-1:8188")
	case u.User != nil, u.RawQuery != "" || u.ForceQuery, u.Fragment != "":
		return "", fmt.Errorf("the address of an engine must have no user, query or fragment: " +
			"keys of engines come from the file that the agent's --engine-secrets names")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if !validPath.MatchString(path) {
		return "", fmt.Errorf("the path of an engine's address may have letters, digits, and . _ ~ - between slashes")
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != defaultPorts[u.Scheme] {
		host += ":" + port
	}
	return u.Scheme + "://" + host + path, nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// Instance is the name of the engine at an address in the one form of [ParseURL]: the id of its
// worker's machine. It has no slash, because agents name folders after it.
func Instance(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port) + strings.ReplaceAll(u.Path, "/", "~")
}
