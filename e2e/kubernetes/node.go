package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reelay/reelay/internal/testrun"
)

// Node is the scheduler and the only node of a cluster. Each pod on it is a process of this machine.
type Node struct {
	cluster *Cluster
	program []string
	ctx     context.Context

	mu   sync.Mutex
	pods map[string]*running // by uid
	// Seen and Left are when each pod was first seen, and when its process ended, by name.
	Seen, Left map[string]time.Time
	logs       string
}

type running struct {
	name    string
	cmd     *exec.Cmd
	leaving bool
}

// pod is what a node reads of a pod.
type pod struct {
	Metadata struct {
		Name, UID                  string
		DeletionTimestamp          *time.Time
		DeletionGracePeriodSeconds int
	}
	Spec struct {
		NodeName   string
		Containers []struct {
			Name    string
			Env     []struct{ Name, Value string }
			EnvFrom []struct{ SecretRef struct{ Name string } }
		}
	}
	Status struct{ Phase string }
}

// StartNode runs the first container of each pod of the namespace as a program of this machine with the container's
// environment, until the test ends.
func (c *Cluster) StartNode(t testing.TB, program ...string) *Node {
	t.Helper()
	n := &Node{cluster: c, program: program, ctx: t.Context(), pods: map[string]*running{}, Seen: map[string]time.Time{},
		Left: map[string]time.Time{}, logs: t.TempDir()}
	var watching sync.WaitGroup
	watching.Go(n.watch)
	t.Cleanup(func() { // the test's context has ended
		watching.Wait()
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(n.logs, "*.log"))
			for _, log := range logs[:min(len(logs), 5)] {
				text, _ := os.ReadFile(log)
				t.Logf("%s:\n%s", filepath.Base(log), text[max(0, len(text)-2000):])
			}
		}
	})
	return n
}

// Count returns how many processes run.
func (n *Node) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pods)
}

// Names returns the pods whose processes run, in order.
func (n *Node) Names() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.pods {
		names = append(names, r.name)
	}
	slices.Sort(names)
	return names
}

// Runs reports whether the process of a pod runs.
func (n *Node) Runs(name string) bool { return slices.Contains(n.Names(), name) }

// SeenAt returns when a pod was first seen, or zero.
func (n *Node) SeenAt(name string) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Seen[name]
}

// watch follows the pods, and begins again when the API server ends the watch.
func (n *Node) watch() {
	for n.ctx.Err() == nil {
		answer, err := n.cluster.send("GET", n.cluster.Path("pods")+"?watch=true", "application/json", nil)
		if err != nil {
			continue
		}
		for events := json.NewDecoder(answer.Body); ; {
			var event struct {
				Type   string
				Object pod
			}
			if events.Decode(&event) != nil {
				break
			}
			n.sees(event.Type, &event.Object)
		}
		answer.Body.Close()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.pods {
		_ = r.cmd.Process.Kill()
	}
}

// sees acts on what has become of a pod.
func (n *Node) sees(event string, p *pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Seen[p.Metadata.Name].IsZero() {
		n.Seen[p.Metadata.Name] = time.Now()
	}
	r := n.pods[p.Metadata.UID]
	switch {
	case event == "DELETED":
		if r != nil {
			_ = r.cmd.Process.Kill()
		}
	case p.Metadata.DeletionTimestamp != nil:
		if r != nil && !r.leaving {
			r.leaving = true
			_ = r.cmd.Process.Signal(syscall.SIGTERM)
			grace := time.AfterFunc(time.Duration(p.Metadata.DeletionGracePeriodSeconds)*time.Second, func() { _ = r.cmd.Process.Kill() })
			context.AfterFunc(n.ctx, func() { grace.Stop() })
		}
		if r == nil && p.Status.Phase != "Running" {
			n.try("DELETE", "", p, Object{"gracePeriodSeconds": 0})
		}
	case p.Spec.NodeName == "":
		n.try("POST", "/binding", p, Object{"metadata": Object{"name": p.Metadata.Name}, "target": Object{"kind": "Node", "name": "node-1"}})
	case r == nil && (p.Status.Phase == "" || p.Status.Phase == "Pending"):
		n.start(p)
	}
}

// try makes a call for a pod. What became impossible meanwhile is no error: the watch tells of it.
func (n *Node) try(method, part string, p *pod, body Object) {
	status, answer, err := n.cluster.try(method, n.cluster.Path("pods", p.Metadata.Name)+part, body)
	if n.ctx.Err() == nil && (err != nil || status >= 300 && status != 404 && status != 409) {
		n.cluster.t.Errorf("%s %s: %d %v %v", method, p.Metadata.Name, status, answer, err)
	}
}

func (n *Node) start(p *pod) {
	container := p.Spec.Containers[0]
	cmd := testrun.Command(n.cluster.t, n.program[0], n.program[1:]...)
	work := filepath.Join(n.logs, p.Metadata.Name)
	cmd.Env = append(os.Environ(), "REELAY_AGENT_WORK_DIR="+work)
	for _, from := range container.EnvFrom {
		_, secret, err := n.cluster.try("GET", n.cluster.Path("secrets", from.SecretRef.Name), nil)
		data, _ := secret["data"].(Object)
		if err != nil || data == nil {
			n.cluster.t.Errorf("the secret %s of a pod: %v %v", from.SecretRef.Name, secret, err)
		}
		for name, value := range data {
			text, _ := base64.StdEncoding.DecodeString(value.(string))
			cmd.Env = append(cmd.Env, name+"="+string(text))
		}
	}
	for _, v := range container.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	log, err := os.Create(work + ".log")
	if err == nil {
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
		log.Close()
	}
	if err != nil {
		n.cluster.t.Errorf("start the pod %s: %v", p.Metadata.Name, err)
		return
	}
	r := &running{name: p.Metadata.Name, cmd: cmd}
	n.pods[p.Metadata.UID] = r
	n.try("PATCH", "/status", p, Object{"status": Object{"phase": "Running", "containerStatuses": []Object{{
		"name": container.Name, "image": "i", "imageID": "", "ready": true, "state": Object{"running": Object{}}}}}})
	go n.wait(p, r)
}

// wait reports the end of a pod.
func (n *Node) wait(p *pod, r *running) {
	_ = r.cmd.Wait()
	n.mu.Lock()
	delete(n.pods, p.Metadata.UID)
	n.Left[r.name] = time.Now()
	leaving := r.leaving
	n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	if leaving {
		n.try("DELETE", "", p, Object{"gracePeriodSeconds": 0, "preconditions": Object{"uid": p.Metadata.UID}})
		return
	}
	phase := "Succeeded"
	if r.cmd.ProcessState.ExitCode() != 0 {
		phase = "Failed"
	}
	n.try("PATCH", "/status", p, Object{"status": Object{"phase": phase, "containerStatuses": []Object{{
		"name": p.Spec.Containers[0].Name, "image": "i", "imageID": "", "state": Object{"terminated": Object{
			"exitCode": r.cmd.ProcessState.ExitCode(), "reason": fmt.Sprint(phase)}}}}}})
}
