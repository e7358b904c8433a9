// Package schedule submits jobs and workflows again and again, at times.
//
// A pass decides on the slots of the schedules that are due, and inserts a row for each; another
// submits what these rows stand for. A slot fires once however many processes do this and whenever
// they are killed: the row's primary key lets one of them decide, and the slot is the idempotency
// key of what it submits.
package schedule
