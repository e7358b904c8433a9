package jobs

import "time"

// Machine is what the signature of a provider says of the caller's machine.
type Machine struct {
	Provider string // such as gce
	Project  string
	Zone     string
	ID       string // the provider's id, which no other machine ever has
	Name     string // unique in the project and zone at one time

	// Token is the SHA-256 of the signed text, which is good for one registration.
	Token []byte
	// Expires is when the signed text expires.
	Expires time.Time
}

// Place returns the name that no other machine has while this one exists.
func (m *Machine) Place() string { return m.Project + "/" + m.Zone + "/" + m.Name }
