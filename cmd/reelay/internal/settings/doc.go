// Package settings reads and checks the configuration of a server process, from the environment and
// flags: each setting once, with one line for each that is wrong.
package settings
