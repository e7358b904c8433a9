package input

import (
	"fmt"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/internal/text"
)

// ParseEnum parses one value of an enum of the API, in upper or lower case.
func ParseEnum[T ~string](name, value string, all []T) (T, error) {
	for _, v := range all {
		if strings.EqualFold(value, string(v)) {
			return v, nil
		}
	}
	var none T
	if value == "" {
		return none, fmt.Errorf("--%s is missing: it must be %s", name, strings.ToLower(OneOf(all)))
	}
	return none, fmt.Errorf("--%s is %q: it must be %s", name, value, strings.ToLower(OneOf(all)))
}

// ParseEnums parses several values of an enum of the API.
func ParseEnums[T ~string](name string, values []string, all []T) ([]T, error) {
	var parsed []T
	for _, value := range values {
		v, err := ParseEnum(name, value, all)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, v)
	}
	return parsed, nil
}

// OneOf lists the allowed values.
func OneOf[T ~string](all []T) string {
	last := len(all) - 1
	return text.Join(all[:last]) + " or " + string(all[last])
}

// ParseLane parses the name of a lane, in upper or lower case.
func ParseLane(name string) (client.Tier, error) {
	for _, lane := range client.AllTier {
		if strings.EqualFold(name, string(lane)) {
			return lane, nil
		}
	}
	return "", fmt.Errorf("there is no lane %q: it must be %s", name, strings.ToLower(OneOf(client.AllTier)))
}
