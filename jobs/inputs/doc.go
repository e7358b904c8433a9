// Package inputs has what a job takes from elsewhere: uploaded files, URLs that are fetched, and the
// results of other jobs. It checks what a request names, records what a run uses, and fetches.
package inputs
