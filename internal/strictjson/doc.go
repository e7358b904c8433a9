// Package strictjson reads JSON of callers: bounded, without duplicate keys, without NULs, and with
// numbers as they were written.
package strictjson
