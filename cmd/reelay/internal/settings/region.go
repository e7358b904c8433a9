package settings

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/reelay/reelay/adapters/peers"
	"github.com/reelay/reelay/features/region"
)

// maxRegionPeers bounds how many regions are asked before a process serves.
const maxRegionPeers = 8

var regionName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// checkRegion checks the name of the region, and the addresses of others.
func (c *Config) checkRegion(bad func(name, value, may string)) {
	if c.Region != "" && !regionName.MatchString(c.Region) {
		bad("REELAY_REGION", c.Region, "the name of this region, of up to 63 lower-case letters, digits and hyphens")
	}
	if len(c.RegionPeers) > maxRegionPeers {
		bad("REELAY_REGION_PEERS", strings.Join(c.RegionPeers, ","), "up to 8 URLs")
	}
	if len(c.RegionPeers) > 0 && c.Region == "" {
		bad("REELAY_REGION", "", "the name of this region, since REELAY_REGION_PEERS is set: set REELAY_REGION, too")
	}
	for _, peer := range c.RegionPeers {
		if u, err := url.Parse(peer); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.User != nil {
			bad("REELAY_REGION_PEERS", peer, "http or https addresses of the apis of other regions, without a path, separated by commas")
		}
	}
}

// Peers are the apis of other regions. Keys are those that sign links.
func (c *Config) Peers(keys func() [][]byte) *peers.Peers {
	return &peers.Peers{URLs: c.RegionPeers, Keys: keys}
}

// Guard lets a process serve while its region is the primary; nil if there is only one region.
func (c *Config) Guard(keys func() [][]byte) *region.Guard {
	if c.Region == "" {
		return nil
	}
	return &region.Guard{Name: c.Region, Peers: c.Peers(keys)}
}
