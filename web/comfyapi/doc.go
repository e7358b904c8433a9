// Package comfyapi serves the Comfy API v2 at /api/v2: programs of its official packages, comfy-sdk for
// Python and @comfyorg/sdk for Node, work with another address and another key. It is a thin layer over
// jobs of models that take a whole graph, and over inputs, which it calls assets.
//
// Ids are Reelay's own: the packages pass them on as they are. The packages poll a job until it has ended,
// follow the links in it, and read events without a cursor: a stream begins with the job's current state.
package comfyapi
