// Package wire has the JSON of jobs and workflows that REST shows and webhooks deliver, in the same
// shapes.
package wire
