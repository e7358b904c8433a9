// Package models holds the rows that jobs, workers and workflows consist of, the ids of all rows,
// and one function per query. Rows and reads of one other subject each have a package below it:
// access, alerts, backlog, capacity, joblist, schedules, webhooks. All run on postgres.
//
// Ordinary statements use bun. The few frequent ones are files in sql/, one statement each. Their
// headers say what they lock, in which order, and what they return. No function here opens a
// transaction: each runs on the bun.IDB that jobs passes in.
//
// Functions that lock rows say so in their names. Every transaction locks in one order:
// worker, job (its dependencies FOR SHARE), attempt, workflow, account last; rows of one kind in
// the order of their ids. A submit keeps other submits of its account out before all that.
package models
