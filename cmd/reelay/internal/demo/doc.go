// Package demo has `reelay demo`: it starts Reelay, makes a video, takes its worker away, and checks
// that the video is right.
package demo
