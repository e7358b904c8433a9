// Package auth manages accounts, API keys and members, and identifies callers by a key, a session of the
// console, or the signed identity of a machine.
package auth
