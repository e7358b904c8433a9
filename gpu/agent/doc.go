// Package agent is the worker. It leases one job at a time, renders it with a
// runtime, and uploads the result.
//
// The control plane is authoritative. The agent may publish (report progress,
// commit a file, end the attempt) only while it knows that it holds the lease. It
// knows this for one lease time, counted from the moment *before* its last
// successful call. After that it continues to render, because nothing else can use
// this GPU, but it publishes nothing until a heartbeat confirms that it still
// holds the job. A worker that was suspended, disconnected or declared lost
// therefore cannot disturb another, and an unreachable control plane costs no
// render.
//
// A render stops for these reasons:
//
//	the lease is lost          stop at once, publish nothing
//	the worker is terminated   the same, and exit
//	the job is cancelled       stop the runtime, or kill it, then release the job
//	preemption or SIGTERM      checkpoint, upload, commit, release, deregister
//	a higher lane waits        checkpoint, upload, commit, stop the runtime, release the job
//	the runtime fails          fail the attempt with the class that the runtime gave
//	the video is defective     fail the attempt with DEFECTIVE_RESULT (check.go)
//	the runtime dies or hangs  MODEL_CRASH or TIMEOUT; the runtime is restarted
//	no renewal for 10 minutes  stop, publish nothing
//
// A worker that the control plane has terminated does not register again: the state
// TERMINATED is final, and the control plane decides what replaces the worker. An
// agent that receives the directive exits as if its machine was preempted. An agent
// that finds its token revoked returns an error, so that its supervisor can restart
// it.
//
// Directives arrive on a stream (listen.go) and with the answer to each heartbeat.
// Heartbeats are sent by a goroutine that waits only for its own timer, so a busy
// runtime cannot cost the lease. If the agent is killed, the standard input of its
// runtime closes and the runtime exits; the lease expires and the job continues on
// another worker from its newest checkpoint.
package agent
