// Package completion completes the words of a command line: ids and names that the API knows, and the
// values of flags.
package completion
