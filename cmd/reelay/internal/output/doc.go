// Package output prints what the commands of the CLI answer: tables that fit the terminal,
// JSON, YAML, names, and the results of jq expressions.
//
// A command prints to a [Screen], which knows whether it is a terminal, how wide it is, and
// whether it shows colours. Everything that is not a terminal gets complete values: nothing is
// shortened or coloured.
package output
