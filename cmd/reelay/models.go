package main

import (
	"bufio"
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
	var t target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models and their parameters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			models, err := c.Models(cmd.Context())
			if err != nil {
				return apiError(err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), items[client.Model]{models})
			}
			return printModels(cmd.OutOrStdout(), models)
		},
	}
	t.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, with the JSON Schema of the parameters")
	return cmd
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
