package completion

import (
	"context"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/access"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/fleet"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/jobs"
	"github.com/reelay/reelay/cmd/reelay/internal/commands/operations"
	"github.com/reelay/reelay/cmd/reelay/internal/connect"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeIDs completes the ids of a kind, newest first.
func completeIDs(kind string) connect.Completion {
	const first = 100
	switch kind {
	case "job":
		return connect.FromAPI(connect.Target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.ListedJob](c.Jobs(ctx, client.JobFilter{}, first, ""))
			return connect.Described(list, func(j client.ListedJob) (string, string) {
				return j.Id, strings.ToLower(string(j.Status)) + " " + output.Clip(output.Clean(lo.FromPtrOr(j.Prompt, j.Model)), 50)
			}), err
		})
	case "wrk":
		return connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.Worker](c.Workers(ctx, client.WorkerFilter{Status: fleet.LiveWorkers()}, first, ""))
			return connect.Described(list, func(w client.Worker) (string, string) {
				return w.Id, strings.ToLower(string(w.Status)) + " " + fleet.PlaceOf(w.ProviderInstanceId, w.Slot)
			}), err
		})
	case "dead":
		return connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.DeadLetter](c.DeadLetters(ctx, client.DeadLetterFilter{}, first, ""))
			return connect.Described(list, func(d client.DeadLetter) (string, string) { return d.Id, output.Clip(output.Clean(d.Reason), 50) }), err
		})
	case "bulk":
		return connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.BulkOperation](c.BulkOperations(ctx, false, first, ""))
			return connect.Described(list, func(b client.BulkOperation) (string, string) {
				return b.Id, operations.BulkActionName(b) + " " + operations.BulkState(b)
			}), err
		})
	case "key":
		return connect.FromAPI(connect.Target{Admin: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Complete(c.APIKeys(ctx, ""))
			return connect.Described(list, func(k client.ApiKey) (string, string) { return k.Id, output.Clean(k.Name) }), err
		})
	case "whk":
		return connect.FromAPI(connect.Target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Complete(c.WebhookEndpoints(ctx))
			return connect.Described(list, func(e client.WebhookEndpoint) (string, string) { return e.Id, output.Clean(e.Url) }), err
		})
	case "alr":
		return connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Complete(c.Alerts(ctx, true))
			return connect.Described(list, func(a client.Alert) (string, string) { return a.Id, output.Clip(output.Clean(a.Message), 60) }), err
		})
	case "sil":
		return connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Complete(c.AlertSilences(ctx))
			return connect.Described(list, func(s client.AlertSilence) (string, string) {
				return s.Id, output.Clip(output.Clean(s.Reason), 60)
			}), err
		})
	case connect.WorkflowKind:
		return connect.FromAPI(connect.Target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.Workflow](c.Workflows(ctx, "", nil, first, ""))
			return connect.Described(list, func(w client.Workflow) (string, string) {
				return w.Id, strings.ToLower(string(w.Status)) + " " + output.Clip(output.Clean(w.Name), 50)
			}), err
		})
	case "whd":
		return connect.FromAPI(connect.Target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.WebhookDelivery](c.WebhookDeliveries(ctx, client.WebhookFilter{}, first, ""))
			return connect.Described(list, func(d client.WebhookDelivery) (string, string) {
				return d.Id, d.Event + " " + operations.DeliveryState(d)
			}), err
		})
	}
	return connect.NoFiles
}

var completeModels = connect.FromAPI(connect.Target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Complete(c.Models(ctx))
	return connect.Described(list, func(m client.Model) (string, string) { return m.Name, output.Clip(output.Clean(m.Description), 60) }), err
})

var completePools = connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Complete(c.Pools(ctx))
	return connect.Described(list, func(p client.Pool) (string, string) { return p.Name, fleet.PoolState(&p) }), err
})

var completeAccounts = connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Page[client.Account](c.Accounts(ctx, 200, ""))
	return connect.Described(list, func(a client.Account) (string, string) { return a.Name, string(a.Tier) }), err
})

var completeMembers = connect.FromAPI(connect.Target{Admin: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Complete(c.Members(ctx))
	return connect.Described(list, func(m client.Member) (string, string) {
		return output.Clean(m.Email), strings.ToLower(string(m.Role))
	}), err
})

var completeAlertRules = connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Complete(c.AlertRules(ctx))
	return connect.Described(list, func(r client.AlertRule) (string, string) { return r.Name, output.Clean(r.Title) }), err
})

var completeReceivers = connect.FromAPI(connect.Target{Operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Complete(c.AlertRoutes(ctx))
	return connect.Described(list, func(r client.AlertRoute) (string, string) { return output.Clean(r.Name), string(r.Kind) }), err
})

// flagWords are the completions of flags that mean the same for all commands.
var flagWords = map[string]connect.Completion{
	"tier": connect.Choices(client.AllTier), "to": connect.Choices(client.AllTier), "role": connect.Choices(access.KeyRoles),
	"class": connect.Choices(client.AllFailureClass), "audience": connect.Choices([]string{"operator", "customer", "all"}),
	"resolution":   connect.Choices([]string{"480p", "720p", "1080p"}),
	"aspect-ratio": connect.Choices([]string{"16:9", "9:16", "1:1", "4:3", "3:4", "21:9"}),
	"model":        completeModels, "account": completeAccounts, "job": completeIDs("job"), "after": completeIDs("job"),
	"context": connect.CompleteContexts, "as": connect.Choices(connect.Roles), "backoff": connect.Choices(client.AllBackoff),
}

// fileFlags are flags whose values name files or folders.
var fileFlags = []string{"file", "output", "prompt-file", "image", "input", "params", "ca-file", "data", "sheet", "html", "secrets-file"}

// AddTo adds the completions of flags to a command and its subcommands, and keeps the
// names of files out where there are none.
func AddTo(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, has := cmd.GetFlagCompletionFunc(f.Name)
		if has || f.Value.Type() == "bool" || slices.Contains(fileFlags, f.Name) {
			return
		}
		complete := flagWords[f.Name]
		switch {
		case f.Name == "status" && (cmd.Name() == "workers" || cmd.HasParent() && cmd.Parent().Name() == "workers"):
			complete = connect.Choices(client.AllWorkerStatus)
		case f.Name == "status":
			complete = connect.Choices(client.AllJobStatus)
		case f.Name == "state" && cmd.Name() == "machines":
			complete = connect.Choices(client.AllMachineState)
		case f.Name == "to" && cmd.Name() == "deliveries":
			complete = completeIDs("whk")
		case f.Name == "after" && cmd.Name() != "submit" && cmd.Name() != "draft" && cmd.Name() != "estimate":
			complete = connect.NoFiles // a cursor
		case f.Name == "kind" && cmd.Name() == "download":
			complete = connect.Choices(jobs.KindNames())
		case complete == nil:
			complete = connect.NoFiles
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = argWords(cmd)
	}
	for _, sub := range cmd.Commands() {
		AddTo(sub)
	}
}

// argWords completes the arguments of a command by the kind of ids that it takes, or by what its usage calls them.
func argWords(cmd *cobra.Command) connect.Completion {
	if kind := connect.IDKind(cmd); kind != "" {
		return completeIDs(kind)
	}
	_, argument, _ := strings.Cut(cmd.Use, " ")
	switch {
	case strings.HasPrefix(argument, "JOB"):
		return completeIDs("job")
	case strings.HasPrefix(argument, "LANE"):
		return connect.FirstOnly(connect.Choices(client.AllTier), connect.NoFiles)
	case strings.HasPrefix(argument, "TIER JOB"):
		return connect.FirstOnly(connect.Choices(client.AllTier), completeIDs("job"))
	case strings.HasPrefix(argument, "PRIORITY JOB"):
		return connect.FirstOnly(connect.NoFiles, completeIDs("job"))
	case strings.HasPrefix(argument, "ACCOUNT"):
		return connect.FirstOnly(completeAccounts, connect.NoFiles)
	case strings.HasPrefix(argument, "CONTEXT"):
		return connect.FirstOnly(connect.CompleteContexts, connect.NoFiles)
	case strings.HasPrefix(argument, "MEMBER"):
		return connect.FirstOnly(completeMembers, connect.NoFiles)
	case strings.HasPrefix(argument, "ROLE MEMBER"):
		return connect.FirstOnly(connect.Choices(access.MemberRoles), completeMembers)
	case strings.HasPrefix(argument, "WORKFLOW"):
		return connect.FirstOnly(completeIDs(connect.WorkflowKind), connect.NoFiles)
	case strings.HasPrefix(argument, "[RULE]"):
		return connect.FirstOnly(completeAlertRules, connect.NoFiles)
	case strings.HasPrefix(argument, "RECEIVER"):
		return connect.FirstOnly(completeReceivers, connect.NoFiles)
	case strings.HasPrefix(argument, "NAME") && cmd.HasParent() && cmd.Parent().Name() == "pools":
		return connect.FirstOnly(completePools, connect.NoFiles)
	case strings.HasPrefix(argument, "NAME") && cmd.HasParent() && cmd.Parent().Name() == "models":
		return connect.FirstOnly(completeModels, connect.NoFiles)
	}
	return connect.NoFiles
}
