package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/spf13/cobra"
)

func modelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models and their parameters",
		Long:  "Lists the models and their parameters. With --json, each model has the JSON Schema of its parameters.",
		Args:  cobra.NoArgs,
	}
	return new(apiCall).command(cmd, func(ctx context.Context, c *client.Client, _ []string) (any, printer, error) {
		models, err := c.Models(ctx)
		return items[client.Model]{models}, func(out io.Writer) error { return printModels(out, models) }, err
	})
}

func printModels(to io.Writer, models []client.Model) error {
	out := bufio.NewWriter(to)
	for i, m := range models {
		if i > 0 {
			fmt.Fprintln(out)
		}
		there := "no worker runs it now"
		if m.Available {
			there = "available"
		}
		fmt.Fprintf(out, "%s  (%s; %s)\n  %s\n", m.Name, m.Type, there, clean(m.Description))
		if err := printTable(out, []string{"  PARAMETER", "DEFAULT", "MEANING"}, paramRows(m.ParamsSchema)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// paramRows reads a JSON Schema as far as it is simple; --json shows all of it.
func paramRows(schema json.RawMessage) [][]string {
	var s struct {
		Properties map[string]struct {
			Description string          `json:"description"`
			Default     json.RawMessage `json:"default"`
			Enum        []any           `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		meaning := p.Description
		if len(p.Enum) > 0 {
			meaning = strings.TrimSpace(meaning + " " + fmt.Sprint(p.Enum))
		}
		rows = append(rows, []string{"  " + name, string(p.Default), meaning})
	}
	return rows
}
