package lease

import (
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/uptrace/bun"
)

// recordSetup writes an audit entry if the version or the settings of this process differ from
// those of the last process of its kind that started. Processes of one kind that differ on purpose
// write an entry at each start.
func (p *Presence) recordSetup(ctx context.Context) error {
	now := models.Setup{Version: p.Version, Settings: p.Settings}
	err := jobs.InTx(ctx, p.DB, func(ctx context.Context, tx bun.Tx) error {
		was, err := models.SwapSetup(ctx, tx, p.Kind, now)
		if err != nil || was == nil {
			return err
		}
		before, after := jobs.Payload{}, jobs.Payload{}
		for _, name := range slices.Sorted(maps.Keys(now.Settings)) {
			if was.Settings[name] != now.Settings[name] {
				before[name], after[name] = was.Settings[name], now.Settings[name]
			}
		}
		for _, name := range slices.Sorted(maps.Keys(was.Settings)) {
			if _, is := now.Settings[name]; !is {
				before[name], after[name] = was.Settings[name], ""
			}
		}
		if was.Version != now.Version {
			before["version"], after["version"] = was.Version, now.Version
		}
		if len(after) == 0 {
			return nil
		}
		return jobs.Host.Audit(ctx, tx, "startProcess", string(p.Kind), jobs.Payload{"host": p.Host, "before": before, "after": after})
	})
	return apierror.Wrap(err, "record the setup of %s", p.Kind)
}

// setIs replaces the value of a setting that has a secret.
const setIs = "(set)"

// SafeSettings returns settings without what operators must not see or what differs at each start:
// secrets, passwords in URLs, and the ports of this machine's own stores.
func SafeSettings(all map[string]string) map[string]string {
	safe := map[string]string{}
	for name, value := range all {
		switch {
		case value == "":
		case isSecret(name):
			safe[name] = setIs
		default:
			safe[name] = text.Clip(text.Printable(safeURL(value)), 200)
		}
	}
	return safe
}

// isSecret reports whether a setting's value is a secret by its name. Names of files and of
// addresses are not.
func isSecret(name string) bool {
	for _, public := range []string{"_FILE", "_URL", "_CERT", "TLS_KEY"} {
		if strings.HasSuffix(name, public) {
			return false
		}
	}
	return slices.ContainsFunc([]string{"SECRET", "PASSWORD", "TOKEN", "KEY", "CREDENTIAL"},
		func(part string) bool { return strings.Contains(name, part) })
}

// safeURL returns a value without the user, the query and the fragment of a URL, since each may
// hold a password. Other values stay as they are.
func safeURL(value string) string {
	if !strings.Contains(value, "://") {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		return setIs // what cannot be parsed might contain one
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	if ip := net.ParseIP(u.Hostname()); ip.IsLoopback() || u.Hostname() == "localhost" {
		u.Host = u.Hostname()
	}
	return u.String()
}
