// Package fairqueue defines the order in which queued jobs start. It is pure: it reads no
// clock and no database. The estimator and the claim call it. PostgreSQL and the ready
// index in Redis have the same order in their own languages, and the tests compare both
// with this package.
//
// A worker that asks for a job gets the first that it can run, by these rules:
//
//  1. Lanes. A job in a higher lane starts before any job in a lower lane.
//  2. Turns. A lane has two lines: its own jobs, and jobs that were promoted into it from
//     a lower tier. One start in models.PromotedEvery is the turn of the promoted line. A line
//     that has its turn but no job gives way to the other.
//  3. Virtual time. In a line the account with the least virtual time is first. Each job
//     that starts advances its account's virtual time by the job's GPU seconds divided by
//     the account's weight, so that accounts get GPU time in proportion to their weights.
//     An account that enters a line does so at the line's time at the earliest: nobody
//     saves up time while it has nothing queued.
//  4. Running cap. An account that runs as many jobs as it may is in no line. When it
//     returns, it enters its lines by rule 3.
//  5. Own order. Of one account's jobs in a line the one with the least Order is first:
//     requeued jobs, then by priority, then by age.
//  6. Window. Of the first Window accounts in a line that are at most WindowTime behind
//     the first, a worker may take the job that it is best prepared for.
package fairqueue
