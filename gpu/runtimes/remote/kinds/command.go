package kinds

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/gpu/runtimes/remote"
	"github.com/reelay/reelay/gpu/runtimes/remote/hosted"
	"github.com/reelay/reelay/internal/engine"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
)

// Command returns `runtime remote`: the runtime of an engine, which an agent starts.
func Command() *cobra.Command {
	var kind, secrets, pool, endpoint, caFile string
	var addresses []string
	var patience time.Duration
	command := &cobra.Command{
		Use:   "remote",
		Short: "Render on an engine for the agent at the other end of the standard input and output",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			parsed, err := engine.ParseKind(kind)
			if err != nil {
				return fmt.Errorf("--kind: %w", err)
			}
			if len(addresses) == 0 {
				return fmt.Errorf("--engine is missing: give the address of the engine, and then those of others whose work is adopted")
			}
			targets, err := remote.NewTargets(secrets)
			if err != nil {
				return err
			}
			var gate hosted.Gate
			every := time.Duration(0)
			if adapter := parsed.Hosted(); adapter != nil {
				if pool == "" {
					return errors.New("--pool is missing: work at a hosted provider counts for a pool")
				}
				trust, err := client.TrustFile(caFile)
				if err != nil {
					return fmt.Errorf("--ca-file: %w", err)
				}
				api, err := client.New(endpoint, os.Getenv("REELAY_API_KEY"), trust)
				if err != nil {
					return err
				}
				gate, every = hosted.NewControl(api, pool), cmp.Or(adapter.Every, 5*time.Second)
			}
			config := remote.Config{Kind: string(parsed), Own: addresses[0], Engines: map[string]remote.Engine{},
				Patience: patience, Every: every, Account: lo.Ternary(every > 0, pool, "")}
			for _, address := range addresses {
				if config.Engines[address], err = New(parsed, targets.Target(address), gate); err != nil {
					return err
				}
			}
			return remote.Run(command.Context(), command.InOrStdin(), command.OutOrStdout(), config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&kind, "kind", "", "kind of the engines: "+engine.List())
	flags.StringArrayVar(&addresses, "engine", nil, "address of the engine; those that follow are others whose work is adopted")
	flags.StringVar(&secrets, "secrets", "", "YAML file of the headers and certificates of engines")
	flags.StringVar(&pool, "pool", "", "pool of the account at a hosted provider, whose limits count")
	flags.StringVar(&endpoint, "endpoint", "", "address of the control plane, which counts the calls at a hosted provider; the key is in REELAY_API_KEY")
	flags.StringVar(&caFile, "ca-file", "", "certificates of the control plane, beside the system's")
	flags.DurationVar(&patience, "patience", 2*time.Minute, "how long an engine may not answer before its job goes elsewhere")
	return command
}
