package main

import (
	"fmt"
	"strings"
)

// parseEnum parses one value of an enum of the API, in upper or lower case.
func parseEnum[T ~string](name, value string, all []T) (T, error) {
	for _, v := range all {
		if strings.EqualFold(value, string(v)) {
			return v, nil
		}
	}
	var none T
	return none, fmt.Errorf("--%s is %q: it must be %s", name, value, strings.ToLower(oneOf(all)))
}

func parseEnums[T ~string](name string, values []string, all []T) ([]T, error) {
	var parsed []T
	for _, value := range values {
		v, err := parseEnum(name, value, all)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, v)
	}
	return parsed, nil
}

// oneOf lists the allowed values.
func oneOf[T ~string](all []T) string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = string(v)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
