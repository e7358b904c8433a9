// Package credentials reads and writes the files in which keys are kept, which only their owner can
// read, and has the keys of a running `reelay up`.
package credentials
