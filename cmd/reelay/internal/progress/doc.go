// Package progress follows a job until it ends, and shows how far it is: one live line with a picture
// on a terminal, otherwise a line for each change.
package progress
