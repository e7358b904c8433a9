// Package upkeep removes what is past its age: rows, and the objects that no row names.
package upkeep
