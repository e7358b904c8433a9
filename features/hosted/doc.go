// Package hosted keeps the limits of accounts at hosted providers of videos, such as Runway, for all machines
// together: jobs at a time, calls in a minute, the waits that the provider asks for, and the circuit that
// opens when it fails. PostgreSQL decides alone, so that nothing is exceeded when Redis is away or comes back
// empty: these limits are small, and each decision is one row.
package hosted
