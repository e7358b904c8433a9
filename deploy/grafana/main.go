// Command grafana writes the Grafana dashboard of Reelay to standard output, as JSON to import.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

func write(into *os.File) error {
	_, err := into.Write(marshal(dashboard()))
	return err
}

func marshal(d object) []byte {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // it is made of plain values only
	}
	return append(data, '\n')
}
