package main

import (
	"errors"
	"time"
)

// timeValue is the value of a flag that names a moment.
type timeValue time.Time

// Set implements [pflag.Value].
func (v *timeValue) Set(text string) error {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return errors.New("it must be a time with its zone, such as 2027-01-02T15:04:05Z or 2027-01-02T15:04:05+01:00")
	}
	*v = timeValue(at)
	return nil
}

// String implements [pflag.Value].
func (v *timeValue) String() string {
	if at := time.Time(*v); !at.IsZero() {
		return at.Format(time.RFC3339)
	}
	return ""
}

// Type implements [pflag.Value].
func (v *timeValue) Type() string { return "time" }
