// Command loader reads a file of Compose as Docker Compose does, with everything that it extends, and prints the
// project as JSON. It is strict: an unknown key, or a service, secret or volume that is missing, is an error. It is a
// module of its own: no part of it is linked into Reelay.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if err := load(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "loader:", err)
		os.Exit(1)
	}
}

// load prints the project in the file. All profiles are active, and the environment has the variables.
func load(ctx context.Context, files []string) error {
	options, err := cli.NewProjectOptions(files, cli.WithOsEnv, cli.WithProfiles([]string{"*"}), cli.WithConsistency(true))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(project)
}
