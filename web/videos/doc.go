// Package videos serves OpenAI's Videos API at /v1/videos. Programs that use it, above
// all OpenAI's official packages, work with another address and another key. It is a
// thin layer over jobs.
//
// The official packages shape much of it. They retry a request up to twice if it is lost,
// or if the status is 408, 409, 429 or 5xx. So no error that would recur has such a
// status, and a repeated create is recognised by its fields. The packages know only four
// statuses of a video, and read the hint of how often to poll only once.
package videos
