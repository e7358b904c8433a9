package agent

import (
	"fmt"
	"os"
	"os/exec"
)

// builtInRuntimes returns the runtimes that are built into this program. They offer the models
// that come with Reelay and whose programs this machine has.
func builtInRuntimes() ([]RuntimeCommand, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program for its built-in runtimes: %w", err)
	}
	programs := RuntimeCommand{Name: "command", Command: []string{self, "runtime", "command"}, BuiltIn: true}
	for _, known := range []struct {
		program string
		models  []string
	}{
		{"ffmpeg", []string{"video.stitch", "video.thumbnail"}},
	} {
		if _, err := exec.LookPath(known.program); err == nil {
			programs.Models = append(programs.Models, known.models...)
		}
	}
	testcard := RuntimeCommand{Name: "testcard", Command: []string{self, "runtime", "testcard"}, Models: []string{"testcard"}}
	return []RuntimeCommand{testcard, programs}, nil
}

// BuiltInModels returns the models that an agent without further settings serves on this machine.
func BuiltInModels() ([]string, error) {
	commands, err := builtInRuntimes()
	var all []string
	for _, c := range commands {
		all = append(all, c.Models...)
	}
	return all, err
}
