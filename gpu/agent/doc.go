// Package agent is the worker: it leases one job at a time, has a runtime render
// it, and hands over what comes of it.
//
// The control plane is authoritative. The agent may publish (report, commit,
// end) only while it knows that it holds the lease, and it knows so until one
// lease time after the moment *before* it last asked. Past that it goes on
// rendering, since nobody else could use this GPU, but is silent until a
// heartbeat has told it that the job is still its own. So a worker that was
// stopped, cut off or thought dead disturbs nobody, and a control plane that was
// away costs no render.
//
// What ends a render, and what happens then:
//
//	the lease is lost          stop at once, publish nothing
//	the worker is terminated   the same, and leave
//	the job is cancelled       stop, kill what does not stop, then release it
//	notice (SIGTERM, a cloud)  checkpoint, upload, commit, release, deregister
//	the runtime fails          fail the attempt with the runtime's class
//	the runtime dies or hangs  MODEL_CRASH or TIMEOUT; it is started again
//	no renewal for 10 minutes  stop, publish nothing
//
// A worker that the control plane has terminated does not register again: TERMINATED
// is final, and whoever said so decides what takes its place. Told so it leaves as
// if its machine went; finding its token revoked it returns an error, so that what
// supervises it may start it anew.
//
// What is wanted of the worker comes on a stream (listen.go) and with the answer to
// each heartbeat. Heartbeats come from a goroutine that waits for nothing but its own timer: a
// busy runtime cannot cost the lease. If the agent is killed, its runtime's
// standard input closes and the runtime ends; the lease runs out and the job goes
// on elsewhere from its newest checkpoint.
package agent
