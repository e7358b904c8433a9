package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// goTask returns the path of go-task's executable. It builds it if there is none that is newer
// than go.mod and go.sum: to ask the go command each time takes half a second.
func goTask() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin", "task_"+runtime.GOOS+"_"+runtime.GOARCH)
	if newer(program, filepath.Join(root, "go.mod")) && newer(program, filepath.Join(root, "go.sum")) {
		return program, nil
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/go-task/task/v3/cmd/task")
	build.Dir = root
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build go-task: %w", err)
	}
	// The go command does not write a program that is current.
	now := time.Now()
	return program, os.Chtimes(program, now, now)
}

// moduleRoot returns the closest folder above the working directory that has a go.mod with
// this tool. `go tool` has found one there.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "internal", "task", "gotask.go")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the working directory is not in a checkout of Reelay")
		}
	}
}

func newer(file, than string) bool {
	one, err := os.Stat(file)
	if err != nil {
		return false
	}
	other, err := os.Stat(than)
	return err == nil && one.ModTime().After(other.ModTime())
}
