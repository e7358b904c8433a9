// Package operations has the commands of those who run an installation: what happens now, what needs
// attention, and what is done to many jobs at once.
package operations
