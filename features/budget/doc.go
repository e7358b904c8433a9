// Package budget lets operators set what accounts and their users may spend, and shows how much of it is used.
package budget
