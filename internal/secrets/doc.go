// Package secrets makes and recognizes API keys and tokens, of which only hashes are kept.
package secrets
