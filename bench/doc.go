// Package bench measures a running Reelay. It compares it with the limit (pgbench
// scripts of the same transactions on the same PostgreSQL) and with its peers
// (bench/peers), in alternating rounds.
//
// A light HTTP client in this process makes the load. Reelay must run in other
// processes, so that the garbage collection of one does not slow the other.
package bench
