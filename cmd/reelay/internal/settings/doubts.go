package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/gpu/provider/command"
	"github.com/reelay/reelay/models/capacity"
)

// Doubts returns sentences about what this process does not find of a pool. They are no errors: the
// pool needs it in control, which may have another configuration.
func (c *Config) Doubts(pool *capacity.Pool) []string {
	var found []string
	if doubt := c.doubtSource(pool); doubt != "" {
		found = append(found, doubt)
	}
	_, configured := c.Providers()[pool.Provider]
	switch {
	case configured && pool.Provider == command.Name:
		if err := command.FindProgram(c.programs, pool); err != nil {
			found = append(found, fmt.Sprintf("The API says of the pool's program, which control must have: %s.", err))
		}
	case configured || !fleet.Scaled(pool.Provider):
	case pool.Provider == command.Name:
		found = append(found, "The API has no REELAY_PROVIDERS: it cannot tell whether there is such a program. "+
			"Unless control has it, the pool gets no workers.")
	default:
		found = append(found, "The API does not reach the provider "+pool.Provider+", which belongs to `reelay up`. "+
			"Unless control does, the pool gets no workers.")
	}
	return found
}

func (c *Config) doubtSource(pool *capacity.Pool) string {
	const otherwise = "Unless that of control has it, the constant price counts."
	switch {
	case pool.PriceSource == "" || pool.QuotedUSD != nil: // control has read it
		return ""
	case c.prices == "":
		return "The API has no REELAY_PRICES: it cannot tell whether there is a source " + pool.PriceSource + ". " + otherwise
	}
	var names []string
	for _, s := range c.PriceSources {
		names = append(names, s.Name)
	}
	if slices.Contains(names, pool.PriceSource) {
		return ""
	}
	return fmt.Sprintf("The REELAY_PRICES of the API has no source %s; it has %s. %s", pool.PriceSource, strings.Join(names, ", "), otherwise)
}
