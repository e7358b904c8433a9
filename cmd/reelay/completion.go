package main

import (
	"context"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeIDs completes the ids of a kind, newest first.
func completeIDs(kind string) completion {
	const first = 100
	switch kind {
	case "job":
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.ListedJob](c.Jobs(ctx, client.JobFilter{}, first, ""))
			return described(list, func(j client.ListedJob) (string, string) {
				return j.Id, strings.ToLower(string(j.Status)) + " " + output.Clip(output.Clean(lo.FromPtrOr(j.Prompt, j.Model)), 50)
			}), err
		})
	case "wrk":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.Worker](c.Workers(ctx, client.WorkerFilter{Status: liveWorkers()}, first, ""))
			return described(list, func(w client.Worker) (string, string) {
				return w.Id, strings.ToLower(string(w.Status)) + " " + placeOf(w.ProviderInstanceId, w.Slot)
			}), err
		})
	case "dead":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.DeadLetter](c.DeadLetters(ctx, client.DeadLetterFilter{}, first, ""))
			return described(list, func(d client.DeadLetter) (string, string) { return d.Id, output.Clip(output.Clean(d.Reason), 50) }), err
		})
	case "bulk":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.BulkOperation](c.BulkOperations(ctx, false, first, ""))
			return described(list, func(b client.BulkOperation) (string, string) { return b.Id, bulkActionName(b) + " " + bulkState(b) }), err
		})
	case "key":
		return fromAPI(target{admin: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.APIKeys(ctx, ""))
			return described(list, func(k client.ApiKey) (string, string) { return k.Id, output.Clean(k.Name) }), err
		})
	case "whk":
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.WebhookEndpoints(ctx))
			return described(list, func(e client.WebhookEndpoint) (string, string) { return e.Id, output.Clean(e.Url) }), err
		})
	case "alr":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.Alerts(ctx, true))
			return described(list, func(a client.Alert) (string, string) { return a.Id, output.Clip(output.Clean(a.Message), 60) }), err
		})
	case "sil":
		return fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := complete(c.AlertSilences(ctx))
			return described(list, func(s client.AlertSilence) (string, string) { return s.Id, output.Clip(output.Clean(s.Reason), 60) }), err
		})
	case workflowKind:
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.Workflow](c.Workflows(ctx, "", nil, first, ""))
			return described(list, func(w client.Workflow) (string, string) {
				return w.Id, strings.ToLower(string(w.Status)) + " " + output.Clip(output.Clean(w.Name), 50)
			}), err
		})
	case "whd":
		return fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := output.Page[client.WebhookDelivery](c.WebhookDeliveries(ctx, client.WebhookFilter{}, first, ""))
			return described(list, func(d client.WebhookDelivery) (string, string) { return d.Id, d.Event + " " + deliveryState(d) }), err
		})
	}
	return noFiles
}

var completeModels = fromAPI(target{}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.Models(ctx))
	return described(list, func(m client.Model) (string, string) { return m.Name, output.Clip(output.Clean(m.Description), 60) }), err
})

var completePools = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.Pools(ctx))
	return described(list, func(p client.Pool) (string, string) { return p.Name, poolState(&p) }), err
})

var completeAccounts = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := output.Page[client.Account](c.Accounts(ctx, 200, ""))
	return described(list, func(a client.Account) (string, string) { return a.Name, string(a.Tier) }), err
})

var completeMembers = fromAPI(target{admin: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.Members(ctx))
	return described(list, func(m client.Member) (string, string) { return output.Clean(m.Email), strings.ToLower(string(m.Role)) }), err
})

var completeAlertRules = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.AlertRules(ctx))
	return described(list, func(r client.AlertRule) (string, string) { return r.Name, output.Clean(r.Title) }), err
})

var completeReceivers = fromAPI(target{operator: true}, func(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := complete(c.AlertRoutes(ctx))
	return described(list, func(r client.AlertRoute) (string, string) { return output.Clean(r.Name), string(r.Kind) }), err
})

// flagWords are the completions of flags that mean the same for all commands.
var flagWords = map[string]completion{
	"tier": choices(client.AllTier), "to": choices(client.AllTier), "role": choices(keyRoles), "class": choices(client.AllFailureClass), "audience": choices([]string{"operator", "customer", "all"}),
	"resolution": choices([]string{"480p", "720p", "1080p"}), "aspect-ratio": choices([]string{"16:9", "9:16", "1:1", "4:3", "3:4", "21:9"}),
	"model": completeModels, "account": completeAccounts, "job": completeIDs("job"), "after": completeIDs("job"),
	"context": completeContexts, "as": choices(roles), "backoff": choices(client.AllBackoff),
}

// fileFlags are flags whose values name files or folders.
var fileFlags = []string{"file", "output", "prompt-file", "image", "input", "params", "ca-file", "data", "sheet", "html", "secrets-file"}

// completeFlags adds the completions of flags to a command and its subcommands, and keeps the
// names of files out where there are none.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, has := cmd.GetFlagCompletionFunc(f.Name)
		if has || f.Value.Type() == "bool" || slices.Contains(fileFlags, f.Name) {
			return
		}
		complete := flagWords[f.Name]
		switch {
		case f.Name == "status" && (cmd.Name() == "workers" || cmd.HasParent() && cmd.Parent().Name() == "workers"):
			complete = choices(client.AllWorkerStatus)
		case f.Name == "status":
			complete = choices(client.AllJobStatus)
		case f.Name == "to" && cmd.Name() == "deliveries":
			complete = completeIDs("whk")
		case f.Name == "after" && cmd.Name() != "submit" && cmd.Name() != "draft" && cmd.Name() != "estimate":
			complete = noFiles // a cursor
		case f.Name == "kind" && cmd.Name() == "download":
			complete = choices(kindNames())
		case complete == nil:
			complete = noFiles
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = argWords(cmd)
	}
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// argWords completes the arguments of a command by the kind of ids that it takes, or by what its usage calls them.
func argWords(cmd *cobra.Command) completion {
	if kind := kindOf(cmd); kind != "" {
		return completeIDs(kind)
	}
	_, argument, _ := strings.Cut(cmd.Use, " ")
	switch {
	case strings.HasPrefix(argument, "JOB"):
		return completeIDs("job")
	case strings.HasPrefix(argument, "LANE"):
		return firstOnly(choices(client.AllTier), noFiles)
	case strings.HasPrefix(argument, "TIER JOB"):
		return firstOnly(choices(client.AllTier), completeIDs("job"))
	case strings.HasPrefix(argument, "PRIORITY JOB"):
		return firstOnly(noFiles, completeIDs("job"))
	case strings.HasPrefix(argument, "ACCOUNT"):
		return firstOnly(completeAccounts, noFiles)
	case strings.HasPrefix(argument, "CONTEXT"):
		return firstOnly(completeContexts, noFiles)
	case strings.HasPrefix(argument, "MEMBER"):
		return firstOnly(completeMembers, noFiles)
	case strings.HasPrefix(argument, "ROLE MEMBER"):
		return firstOnly(choices(memberRoles), completeMembers)
	case strings.HasPrefix(argument, "WORKFLOW"):
		return firstOnly(completeIDs(workflowKind), noFiles)
	case strings.HasPrefix(argument, "[RULE]"):
		return firstOnly(completeAlertRules, noFiles)
	case strings.HasPrefix(argument, "RECEIVER"):
		return firstOnly(completeReceivers, noFiles)
	case strings.HasPrefix(argument, "NAME") && cmd.HasParent() && cmd.Parent().Name() == "pools":
		return firstOnly(completePools, noFiles)
	case strings.HasPrefix(argument, "NAME") && cmd.HasParent() && cmd.Parent().Name() == "models":
		return firstOnly(completeModels, noFiles)
	}
	return noFiles
}
