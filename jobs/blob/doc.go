// Package blob keeps objects in Google Cloud Storage, or in an emulator of it,
// and signs the links by which they come and go.
//
// The bytes never pass through a GraphQL call: who may send or read an object
// gets a link that says so. On Google Cloud Storage a link is a V4 signed URL,
// and the store itself holds its terms. An emulator holds none of them, so in
// front of one the links lead to Handler, which does: a link is good for one
// method and one key until it expires, an upload for exactly the size, type and
// checksum announced, and an object is written once and never overwritten.
// Above the signing nobody can tell the two apart.
package blob
