// Package video has what OpenAI's Videos API adds to jobs: how a request is repeated, and the deletion
// of a video.
package video
