// Package submission has the commands that submit jobs: one, a file of many, and drafts.
package submission
