package fakegce

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	compute "google.golang.org/api/compute/v1"
)

// OnRunning calls a function with each machine that begins to run from now on. Close waits for it.
func (s *Server) OnRunning(do func(ctx context.Context, machine *compute.Instance)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRunning = do
}

// RunScripts runs the startup script of each machine that begins to run from now on as a program of this computer, with a
// metadata server of its own, whose tokens an issuer signs.
func (s *Server) RunScripts(issuer *Issuer) {
	s.OnRunning(func(ctx context.Context, machine *compute.Instance) {
		metadata := startMetadata(issuer, machine, func(path, value string) bool {
			if !strings.EqualFold(attributeOf(machine, "enable-guest-attributes"), "true") {
				return false
			}
			s.SetGuestAttribute(zoneOf(machine), machine.Name, path, value)
			return true
		})
		defer metadata.Close()
		cmd := exec.CommandContext(ctx, "bash", "-c", attributeOf(machine, "startup-script"))
		cmd.Env = append(os.Environ(), "GCE_METADATA_HOST="+metadata.Host)
		_ = cmd.Run() // what it could not do is missing in the attributes
	})
}

// running calls what is to be called with a machine that begins to run. The caller holds mu.
func (s *Server) running(machine *compute.Instance) {
	do := s.onRunning
	if do == nil || s.isClosing() {
		return
	}
	s.scripts.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-s.closing:
				cancel()
			case <-done:
			}
		}()
		do(ctx, machine)
	})
}

// SetGuestAttribute sets a guest attribute of a machine, at a path such as namespace/key.
func (s *Server) SetGuestAttribute(zone, name, path, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := zone + "/" + name
	if s.guest[key] == nil {
		s.guest[key] = map[string]string{}
	}
	s.guest[key][path] = value
}

// getGuestAttributes answers with the attributes at a path: a namespace, which ends with a slash, or one key of it.
func (s *Server) getGuestAttributes(req *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := req.zone + "/" + req.r.PathValue("name")
	path := req.r.URL.Query().Get("queryPath")
	if s.instances[key] == nil {
		req.refuse(http.StatusNotFound, "notFound", "The resource was not found.")
		return
	}
	answer := &compute.GuestAttributes{Kind: "compute#guestAttributes", QueryPath: path, QueryValue: &compute.GuestAttributesValue{},
		SelfLink: s.URL + req.r.URL.Path}
	for _, one := range slices.Sorted(maps.Keys(s.guest[key])) {
		if namespace, name, _ := strings.Cut(one, "/"); path == "" || path == namespace+"/" || path == one {
			answer.QueryValue.Items = append(answer.QueryValue.Items,
				&compute.GuestAttributesEntry{Namespace: namespace, Key: name, Value: s.guest[key][one]})
		}
	}
	if len(answer.QueryValue.Items) == 0 {
		req.refuse(http.StatusNotFound, "notFound", fmt.Sprintf("The resource '%s' of type 'Guest Attribute' was not found.", path))
		return
	}
	req.answer(answer)
}
