// Command trim deletes the getters of the generated client that no interface asks for. genqlient
// writes one for each field, and fields are exported: without them, the reference of the client is
// half as long.
//
//	go run ./client/trim client/generated.go Edges PageInfo …   the last are fields whose getters stay
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := trim(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// trim rewrites a file without the getters of other fields than those in keep.
func trim(name string, keep []string) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the client: %w", err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse the client: %w", err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if of, ok := n.(*ast.InterfaceType); ok {
			for _, method := range of.Methods.List {
				for _, name := range method.Names {
					keep = append(keep, strings.TrimPrefix(name.Name, "Get"))
				}
			}
		}
		return true
	})
	var kept bytes.Buffer
	from := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil || len(f.Body.List) != 1 {
			continue
		}
		field, getter := strings.CutPrefix(f.Name.Name, "Get")
		if !getter || slices.Contains(keep, field) {
			continue
		}
		kept.Write(source[from:files.Position(f.Doc.Pos()).Offset])
		from = files.Position(f.End()).Offset
	}
	kept.Write(source[from:])
	text, err := format.Source(kept.Bytes())
	if err != nil {
		return fmt.Errorf("format the client: %w", err)
	}
	return os.WriteFile(name, text, 0o644)
}
