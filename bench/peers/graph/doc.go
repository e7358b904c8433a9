// Package graph is a schema with nothing behind it, against which the bench measures gqlgen alone: made of
// schema.graphqls.
package graph
