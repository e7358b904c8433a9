// Package auth manages accounts, API keys and members, and tells who is calling: by a key, a session of
// the console, or the proof of a machine.
package auth
