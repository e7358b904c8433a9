// Package compose has files of Docker Compose that run Reelay on one machine or three, and their tests.
// docs/operators/compose.md describes them.
package compose
