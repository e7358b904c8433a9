package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// qualityLimits are the numbers that an entry's quality may set, and their ranges. Agents know
// their meaning and their defaults.
var qualityLimits = map[string]struct{ least, most float64 }{
	"frozenSeconds":   {0.1, 3600},
	"blackShare":      {0.01, 1},
	"flatShare":       {0.01, 1},
	"blackBrightness": {1, 255},
	"flatDeviation":   {0.1, 128},
	"silentDb":        {-120, -1},
	"driftSeconds":    {0.01, 60},
}

// qualitySwitches are the settings of an entry's quality that are true or false.
var qualitySwitches = []string{"check", "allowDark", "allowStill"}

// checkQuality returns what is wrong with an entry's quality.
func checkQuality(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	given := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&given); err != nil || decoder.Decode(new(any)) != io.EOF {
		return errors.New("quality must be a map")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		limit, isNumber := qualityLimits[name]
		value, ok := given[name].(float64)
		switch {
		case slices.Contains(qualitySwitches, name):
			if _, ok := given[name].(bool); !ok {
				return fmt.Errorf("quality.%s must be true or false", name)
			}
		case !isNumber:
			known := slices.Concat(qualitySwitches, slices.Sorted(maps.Keys(qualityLimits)))
			return fmt.Errorf("quality has no setting %q: it can have %s", name, strings.Join(known, ", "))
		case !ok || !(value >= limit.least && value <= limit.most):
			return fmt.Errorf("quality.%s must be a number from %g to %g", name, limit.least, limit.most)
		}
	}
	return nil
}
