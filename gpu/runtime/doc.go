// Package runtime is the protocol between an agent and the process that holds a
// model: JSON lines over that process's standard input and output. The agent
// uses [Launch]; a runtime written in Go uses [Serve]. docs/users/runtime-protocol.md
// says the same for every other language.
//
// Who is authoritative: the agent. A runtime knows nothing of leases, of the
// object store or of the network; it is given files and leaves files behind.
//
// Who survives what: a runtime may crash, hang, flood or speak nonsense at any
// moment and costs the agent no more than a [Failure] and a bounded amount of
// memory. A runtime never outlives its agent: its standard input ends, on Linux
// the kernel kills it as well, and the agent kills its whole process group.
package runtime
