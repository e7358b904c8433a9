// Package metadata asks the metadata server of a cloud about the machine that it runs on:
// whether the machine is about to be taken away, and for a proof of its identity.
//
// A metadata server is a host in the machine's own network that may be absent, slow or
// somebody else's. So every answer is bounded in time and size, must prove where it comes
// from as far as the cloud defines that, and no failure here is one of the worker.
package metadata
