// Package input reads what users write: values of flags, name=value pairs and files.
package input
