// Package runtime is the protocol between an agent and the process that runs a
// model: JSON lines over that process's standard input and output. The agent
// uses [Launch]; a runtime written in Go uses [Serve].
// docs/users/runtime-protocol.md describes the protocol for other languages.
//
// The agent is authoritative. A runtime knows nothing about leases, the object
// store or the network; it reads and writes local files.
//
// A runtime can crash, hang, flood its output or send invalid messages at any
// moment. That costs the agent a [Failure] and a bounded amount of memory, no
// more. A runtime never outlives its agent: its standard input ends, on Linux
// the kernel kills it as well, and the agent kills its whole process group.
package runtime
