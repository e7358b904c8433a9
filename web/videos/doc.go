// Package videos serves OpenAI's Videos API at /v1/videos, so that programs
// written for it, the official packages first of all, go on with another address
// and another key. It is a thin layer: what may happen to a job is the domain's.
//
// What its clients do on their own decides much here. They send a request again,
// up to twice, whenever it failed on its way or was answered with 408, 409, 429 or
// 5xx: so nothing that would fail again is answered so, and a repeated create is
// known by its fields. They know four statuses only, and read one hint of how
// often to poll, at their first poll.
package videos
