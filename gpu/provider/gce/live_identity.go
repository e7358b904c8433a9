package gce

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/internal/text"
	"github.com/reelay/reelay/jobs"
	"google.golang.org/api/compute/v1"
)

// identityScript makes a machine show its identity.
//
//go:embed identity.sh
var identityScript string

// The attributes of a machine that shows its identity.
const (
	metaGuest    = "enable-guest-attributes"
	metaAudience = "identity-audience"
	// guestPath is the namespace of the guest attributes, and the others are its keys.
	guestPath     = "reelay/"
	guestIdentity = "identity"
	guestError    = "error"
)

// API is an API of Reelay with which machines register by their identity.
type API struct {
	// Audience is the audience of tokens, Project the only project whose machines may register, and Account the only service
	// account that they may run as; "" is any.
	Audience, Project, Account string
	// Ahead is how far its clock is ahead.
	Ahead time.Duration
}

// Verify verifies an identity token as an API does when a machine registers with it. It returns UNAUTHENTICATED for a token
// that the API refuses.
type Verify func(ctx context.Context, token string, as API) (*jobs.Machine, error)

// showingIdentity returns settings whose machines show their identity to an audience, instead of running an agent. They exist for
// the shortest time that Compute Engine takes.
func showingIdentity(settings json.RawMessage, audience string) (json.RawMessage, error) {
	var all map[string]any
	if err := json.Unmarshal(settings, &all); err != nil {
		return nil, err
	}
	attributes, _ := all["metadata"].(map[string]any)
	if attributes == nil {
		attributes = map[string]any{}
	}
	attributes[metaGuest], attributes[metaAudience] = "TRUE", audience
	all["metadata"], all["startupScript"], all["maxRunSeconds"] = attributes, identityScript, leastMaxRun
	delete(all, "container")
	return json.Marshal(all)
}

// newAudience returns an audience of no API and no other run.
func newAudience() string { return "https://reelay.invalid/doctor/" + uuid.NewString() }

// registers checks that an API would let the machine register by its identity, and that it would refuse its token anywhere else.
func (l *live) registers(ctx context.Context) (string, error) {
	if l.settings.ServiceAccount == "" && l.settings.Template == "" {
		return "the pool has no settings.serviceAccount: its machines have no identity, and register with a key", errUntested
	}
	token, why, err := l.token(ctx)
	if err != nil || token == "" {
		return why, errors.Join(err, untestedIf(why != ""))
	}
	api := API{Audience: l.audience, Project: l.settings.Project, Account: l.settings.ServiceAccount}
	machine, err := l.Verify(ctx, token, api)
	if err != nil {
		return "", fmt.Errorf("the API would not let the machine register: %w", err)
	}
	if err := l.isMachine(ctx, machine); err != nil {
		return "", err
	}
	if err := l.refused(ctx, token, api); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s in %s, project %s, signed by Google for this run; refused for another run, a changed signature, another "+
		"project, and after an hour", machine.Name, machine.Zone, machine.Project), nil
}

func untestedIf(is bool) error {
	if is {
		return errUntested
	}
	return nil
}

// token waits for the token that the machine shows. Without one, it says why.
func (l *live) token(ctx context.Context) (token, why string, err error) {
	service, _, err := l.provider.of(l.pool)
	if err != nil {
		return "", "", err
	}
	ticker := time.NewTicker(l.Poll)
	defer ticker.Stop()
	last := "its image must run startup scripts and have curl"
	for {
		shown, err := call(ctx, l.provider, func(ctx context.Context) (*compute.GuestAttributes, error) {
			return service.Instances.GetGuestAttributes(l.settings.Project, l.zone, l.id).QueryPath(guestPath).Context(ctx).Do()
		})
		switch {
		case fleet.ClassOf(err) == fleet.Permission:
			return "", "its guest attributes cannot be read: give yourself compute.instances.getGuestAttributes, and look for the policy " +
				"compute.disableGuestAttributesAccess (" + text.Clip(err.Error(), 300) + ")", nil
		case err == nil && shown.QueryValue != nil:
			for _, one := range shown.QueryValue.Items {
				switch value := strings.TrimSpace(one.Value); {
				case one.Key == guestIdentity && value != "":
					return value, "", nil
				case one.Key == guestError:
					return "", "the machine says: " + text.Clip(value, 300), nil
				}
			}
		}
		if err != nil && !isGone(err) && ctx.Err() == nil {
			last = text.Clip(err.Error(), 300)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return "", "", ctx.Err()
			}
			return "", fmt.Sprintf("the machine showed no identity within %s: %s", l.Wait, last), nil
		case <-ticker.C:
		}
	}
}

// isMachine checks that a proved machine is the one that was created, and that its agent could register in its pool.
func (l *live) isMachine(ctx context.Context, proved *jobs.Machine) error {
	service, _, err := l.provider.of(l.pool)
	if err != nil {
		return err
	}
	made, err := call(ctx, l.provider, func(ctx context.Context) (*compute.Instance, error) {
		return service.Instances.Get(l.settings.Project, l.zone, l.id).Context(ctx).Do()
	})
	if err != nil {
		return err
	}
	id := strconv.FormatUint(made.Id, 10)
	if proved.ID != id || proved.Name != l.id || proved.Zone != l.zone || proved.Project != l.settings.Project {
		return fmt.Errorf("the token is that of the machine %s (%s) in %s of %s, and not of %s (%s) in %s of %s", proved.Name, proved.ID,
			proved.Zone, proved.Project, l.id, id, l.zone, l.settings.Project)
	}
	return fleet.Fits(proved, l.pool, &fleet.Registration{Provider: Name, ProviderInstanceID: l.id, PoolID: l.pool.ID, Region: l.pool.Region,
		Zone: l.zone})
}

// refused checks that APIs refuse a token that is not for them, is not what Google signed, or has expired.
func (l *live) refused(ctx context.Context, token string, api API) error {
	another, foreign, later := api, api, api
	another.Audience = newAudience()
	foreign.Project += "x"
	later.Ahead = 61 * time.Minute // Google's tokens are valid for an hour
	for _, c := range []struct {
		what, token string
		as          API
	}{
		{"made for another API", token, another}, {"of a machine of another project", token, foreign}, {"that has expired", token, later},
		{"whose signature was changed", changed(token), api},
	} {
		_, err := l.Verify(ctx, c.token, c.as)
		if err == nil {
			return fmt.Errorf("the API would accept a token %s", c.what)
		}
		if !apierror.HasCode(err, apierror.CodeUnauthenticated) {
			return fmt.Errorf("whether the API refuses a token %s is unknown: %w", c.what, err)
		}
	}
	return nil
}

// changed returns a token with another signature of the same form.
func changed(token string) string {
	at := strings.LastIndexByte(token, '.') + 1
	if at >= len(token) {
		return token
	}
	other := byte('A')
	if token[at] == other {
		other = 'B'
	}
	return token[:at] + string(other) + token[at+1:]
}
