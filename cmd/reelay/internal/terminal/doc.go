// Package terminal is how a command ends and asks: the exit statuses, the errors of an invalid
// command line in words, and the questions to the user of a terminal.
package terminal
