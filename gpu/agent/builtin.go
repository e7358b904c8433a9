package agent

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/reelay/reelay/gpu/agent/host"
)

// programs are the models that come with Reelay and whose work another program does.
var programs = []struct {
	name   string
	models []string
}{
	{"ffmpeg", []string{"video.stitch", "video.thumbnail"}},
	{"reelay-transcribe", []string{"audio.transcribe"}},
	{"reelay-inference", []string{"inference.run"}},
}

// builtInRuntimes returns the runtimes that are built into this program. They offer the models
// that come with Reelay and whose programs this machine has.
func builtInRuntimes(httpFlags []string) ([]host.Command, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program for its built-in runtimes: %w", err)
	}
	runtime := func(name string, models ...string) host.Command {
		return host.Command{Name: name, Command: []string{self, "runtime", name}, BuiltIn: true, Models: models}
	}
	testcard, command, http := runtime("testcard", "testcard"), runtime("command"), runtime("http", "http.call")
	testcard.BuiltIn = false // it is started at once, which shortens the first job
	http.Command = append(http.Command, httpFlags...)
	for _, p := range programs {
		if _, err := exec.LookPath(p.name); err == nil {
			command.Models = append(command.Models, p.models...)
		}
	}
	return []host.Command{testcard, command, http}, nil
}

// BuiltInModels returns the models that an agent without --runtime and --models serves on this
// machine.
func BuiltInModels() ([]string, error) {
	commands, err := builtInRuntimes(nil)
	var all []string
	for _, c := range commands {
		all = append(all, c.Models...)
	}
	return all, err
}

// httpFlags returns the flags of the runtime http. A job must not call the API that the agent
// works for.
func (s settings) httpFlags() []string {
	except := s.outboundExcept
	if u, err := url.Parse(s.endpoint); err == nil && u.Hostname() != "" {
		except = append(except, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])))
	}
	flags := []string{"--except=" + strings.Join(except, ",")}
	if s.outboundLoopback {
		flags = append(flags, "--allow-loopback")
	}
	return flags
}
