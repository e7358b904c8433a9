// Package bench measures a Reelay that runs, beside the limit (pgbench scripts of
// the same transactions on the same PostgreSQL) and its peers (bench/peers), in
// rounds that take turns.
//
// The load is made by a light HTTP client in this process, which must not be one
// that serves: so the garbage of one is not the other's to collect.
package bench
