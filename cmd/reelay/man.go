//go:build man

package main

import "github.com/reelay/reelay/internal/manual"

func init() { extraCommands = append(extraCommands, manual.Command) }
