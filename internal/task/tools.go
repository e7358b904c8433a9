//go:build tools

package main

// This import keeps go-task and what it needs in go.mod and go.sum.
import _ "github.com/go-task/task/v3/cmd/task"
