package input

import (
	"errors"
	"time"
)

// Time is the value of a flag that names a moment: a time, or a duration from now.
type Time struct {
	At time.Time
	// Duration is what was given, if it is not a time.
	Duration string
}

// Set implements [pflag.Value].
func (v *Time) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*v = Time{At: at}
		return nil
	}
	after, err := time.ParseDuration(text)
	if err != nil || after <= 0 {
		return errors.New(
			"it must be a time with its zone, such as 2027-01-02T15:04:05Z or 2027-01-02T15:04:05+01:00, or a duration from now, such as 2h or 90m",
		)
	}
	*v = Time{time.Now().Add(after).UTC().Round(time.Second), text}
	return nil
}

// String implements [pflag.Value].
func (v *Time) String() string {
	if v.At.IsZero() {
		return ""
	}
	return v.At.Format(time.RFC3339)
}

// Type implements [pflag.Value].
func (v *Time) Type() string { return "time|duration" }
