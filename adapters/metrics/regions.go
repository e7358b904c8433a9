package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/reelay/reelay/features/region"
)

var (
	regionPrimaryDesc = desc("reelay_region_primary",
		"1 if this region is the primary, 0 if not. Absent with one region, as are the others of reelay_region. Processes that wait serve no metrics.", "region")
	regionEpochDesc    = desc("reelay_region_epoch", "How many promotions of regions there were, as this region's database knows it.")
	regionPromotedDesc = desc("reelay_region_promoted_timestamp_seconds", "When the newest promotion of a region was made.")
	regionPeerDesc     = desc("reelay_region_peer_up",
		"1 if an api of another region answered this process when it was asked last, and proved its answer.",
		"peer")
	regionTroubleDesc = desc("reelay_region_peer_trouble",
		"1 if an api of another region is what is wrong with it: SILENT, SERVES_TOO (it claims to be the primary), OVERTAKEN (it was the primary, and is "+
			"no standby yet) or FOREIGN (it is of this region, or no copy).", "peer", "trouble")
)

// newRegions says how the regions stand. There is nothing to say if there is only one.
func newRegions(read func(context.Context) (*region.Report, error)) prometheus.Collector {
	return &gauges[*region.Report]{
		what: "the regions", every: readEvery, read: read,
		descs: []*prometheus.Desc{regionPrimaryDesc, regionEpochDesc, regionPromotedDesc, regionPeerDesc, regionTroubleDesc},
		emit: func(r *region.Report, into chan<- prometheus.Metric) {
			if r == nil {
				return
			}
			into <- gauge(regionPrimaryDesc, oneIf(r.Serves), r.Region)
			into <- gauge(regionEpochDesc, float64(r.Epoch))
			if r.Since != nil {
				into <- gauge(regionPromotedDesc, float64(r.Since.UnixMilli())/1000)
			}
			for _, p := range r.Peers {
				into <- gauge(regionPeerDesc, oneIf(p.Answers), p.Address)
				for _, trouble := range region.Troubles {
					into <- gauge(regionTroubleDesc, oneIf(p.Trouble == trouble), p.Address, string(trouble))
				}
			}
		},
	}
}
