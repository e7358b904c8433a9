package system

import (
	"cmp"

	"github.com/reelay/reelay/features/region"
	"github.com/reelay/reelay/models/regions"
	"github.com/reelay/reelay/web/ui"
)

// primaryName names the primary.
func primaryName(r *region.Report) string {
	if r.Serves {
		return r.Region + ", this one"
	}
	return r.Primary
}

// waitedFor says for which standbys commits wait.
func waitedFor(r *region.Report) string {
	return cmp.Or(ui.Clip(r.CommitsWaitFor, 100), "no standby: a promotion loses the last moments")
}

// standbyState describes a standby in words; "" if PostgreSQL does not say it.
func standbyState(s regions.Standby) string {
	words := map[string]string{
		"sync": "commits wait for it", "quorum": "commits wait for it, or for another", "potential": "commits wait for it if another fails",
		"async": "commits do not wait for it",
	}[s.State]
	if words == "" {
		return ""
	}
	if s.BehindBytes != nil && *s.BehindBytes > 0 {
		words += "; " + ui.Bytes(*s.BehindBytes) + " behind"
	}
	if s.LagSeconds != nil && *s.LagSeconds >= 1 {
		words += ", " + lag(s.LagSeconds)
	}
	return words
}

// promotedBy says who promoted a region.
func promotedBy(p region.ReportedPromotion) string {
	if p.Learned {
		return "another region told of it"
	}
	return cmp.Or(p.By, "the first start")
}
