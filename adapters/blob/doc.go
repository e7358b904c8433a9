// Package blob stores objects in Google Cloud Storage or in an emulator of it, and signs the
// links to upload and download them.
//
// The bytes never pass through a GraphQL call: a caller who may send or read an object gets a
// signed link. On Google Cloud Storage a link is a V4 signed URL, and the store itself
// enforces its terms. An emulator enforces none, so its links lead to Handler, which does: a
// link is valid for one method and one key until it expires, an upload must have exactly the
// announced size, type and checksum, and an object is written once and never overwritten. Code
// above the signing cannot tell the two apart.
package blob
