package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/capacity"
	"github.com/uptrace/bun"
)

// placeOf returns the place of the machine that the caller's identity proves, or "".
func placeOf(p jobs.Principal) string {
	if p.Machine == nil {
		return ""
	}
	return p.Machine.Place()
}

// admit checks the registration of a worker against the proved machine as [Fits] does. It takes the
// zone from the proof, and uses the proof up.
func admit(ctx context.Context, tx bun.Tx, m *jobs.Machine, pool *capacity.Pool, in *Registration) error {
	if m == nil {
		return nil
	}
	if err := Fits(m, pool, in); err != nil {
		return err
	}
	in.Zone = m.Zone
	err := capacity.UseIdentity(ctx, tx, m.Token, m.Expires)
	if errors.Is(err, sql.ErrNoRows) {
		return apierror.New(apierror.CodeUnauthenticated, "This identity token has registered a worker before: get a new one.")
	}
	return err
}

// Fits checks the registration of a worker against the machine that its identity proves, and that the
// pool has such machines. It returns FORBIDDEN or INVALID_INPUT.
func Fits(m *jobs.Machine, pool *capacity.Pool, in *Registration) error {
	if pool == nil {
		return apierror.Invalid("poolId", "A machine that registers by its identity names its pool.")
	}
	region := m.Zone[:max(0, strings.LastIndexByte(m.Zone, '-'))]
	switch {
	case in.Provider != m.Provider:
		return misfit("provider", in.Provider, m.Provider)
	case in.ProviderInstanceID != m.Name && in.ProviderInstanceID != m.ID:
		return misfit("providerInstanceId", in.ProviderInstanceID, m.Name)
	case in.Region != region:
		return misfit("region", in.Region, region)
	case in.Zone != "" && in.Zone != m.Zone:
		return misfit("zone", in.Zone, m.Zone)
	}
	var settings struct {
		Project string `json:"project"`
	}
	_ = json.Unmarshal(pool.Settings, &settings) // the provider checks them
	if pool.Provider != m.Provider || pool.Region != region || len(pool.Zones) > 0 && !slices.Contains(pool.Zones, m.Zone) ||
		settings.Project != "" && settings.Project != m.Project {
		return apierror.Forbidden("The pool %s has no machines of %s in the project %s and the zone %s.", pool.Name, m.Provider, m.Project,
			m.Zone)
	}
	return nil
}

func misfit(field, said, proved string) error {
	return apierror.Forbidden("The worker's %s is %s, but the identity of its machine says %s.", field, said, proved)
}
