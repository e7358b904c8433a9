// Package identity verifies the proof of a machine's identity that its provider signs, so that
// machines need no key to register as workers.
//
// Google signs a token (a JWT) for each machine of Compute Engine that asks its metadata server
// for one. Anybody can make a text that looks like one, so a caller without a valid token must
// cost little: a limiter comes before the signature, and Google's keys are fetched at most once
// every ten seconds, whatever the tokens name.
package identity
