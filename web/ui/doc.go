// Package ui is the templ parts that the console's pages share. It knows nothing
// of jobs. What is unknown shows as n/a, never as 0.
package ui
