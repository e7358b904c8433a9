// Command finish rewrites what genqlient generated, for which genqlient has no setting:
//
//   - Optional fields of inputs and optional variables are left out while they are nil: null is not
//     the same as no value. Of lists, an operation says whether an empty one is left out, except for
//     those in emptyLists.
//   - Getters are deleted unless an interface asks for them, or a list of fields to keep. Fields are
//     exported: without getters, the reference of the client is half as long.
//
// Run it in the folder of the client:
//
//	go run ./finish FIELD…
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	graphql "github.com/vektah/gqlparser/v2/ast"
	graphqlparser "github.com/vektah/gqlparser/v2/parser"
)

const generated = "generated.go"

func main() {
	if err := finish(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// finish rewrites the client. It keeps the getters of the fields in keep.
func finish(keep []string) error {
	optional, err := optionalFields()
	if err != nil {
		return err
	}
	source, err := os.ReadFile(generated)
	if err != nil {
		return fmt.Errorf("read the client: %w", err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, generated, source, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse the client: %w", err)
	}
	var text bytes.Buffer
	from := 0
	next := func(at token.Pos) { // copies what stands before
		to := files.Position(at).Offset
		text.Write(source[from:to])
		from = to
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
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			field, getter := strings.CutPrefix(decl.Name.Name, "Get")
			if getter && decl.Recv != nil && len(decl.Body.List) == 1 && !slices.Contains(keep, field) {
				next(decl.Doc.Pos())
				from = files.Position(decl.End()).Offset
			}
		case *ast.GenDecl:
			for _, tag := range tagsOf(decl, optional) {
				next(tag.at.Pos())
				text.WriteString(tag.text)
				from = files.Position(tag.at.End()).Offset
			}
		}
	}
	text.Write(source[from:])
	done, err := format.Source(text.Bytes())
	if err != nil {
		return fmt.Errorf("format the client: %w", err)
	}
	return os.WriteFile(generated, done, 0o644)
}

// emptyLists are lists of inputs whose empty value differs from none: they are left out while they are nil.
var emptyLists = []string{"SubmitJobInput.fallback"}

// newTag is a tag of a field, and the text that replaces it.
type newTag struct {
	at   *ast.BasicLit
	text string
}

// tagsOf returns the new tags of the optional fields of the structs in a declaration.
func tagsOf(decl *ast.GenDecl, optional map[string]bool) (tags []newTag) {
	for _, spec := range decl.Specs {
		of, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := of.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			if f.Tag == nil {
				continue
			}
			name, _, said := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(f.Tag.Value, "`json:\""), "\"`"), ",omitempty")
			_, list := f.Type.(*ast.ArrayType)
			switch field := strings.TrimPrefix(of.Name.Name, "__premarshal") + "." + name; {
			case slices.Contains(emptyLists, field):
				tags = append(tags, newTag{f.Tag, "`json:\"" + name + ",omitzero\"`"})
			case !said && !list && optional[field]:
				tags = append(tags, newTag{f.Tag, "`json:\"" + name + ",omitempty\"`"})
			}
		}
	}
	return tags
}

// optionalFields returns the optional fields of inputs, as Input.field, and the optional variables of
// operations, as genqlient names their structs.
func optionalFields() (map[string]bool, error) {
	optional := map[string]bool{}
	schema, err := sources("../graph/schema/*.graphqls")
	if err != nil {
		return nil, err
	}
	known, err := graphqlparser.ParseSchemas(schema...)
	if err != nil {
		return nil, fmt.Errorf("parse the schema: %w", err)
	}
	for _, of := range known.Definitions {
		for _, field := range of.Fields {
			optional[of.Name+"."+field.Name] = of.Kind == graphql.InputObject && !field.Type.NonNull
		}
	}
	operations, err := sources("*.graphql")
	if err != nil {
		return nil, err
	}
	for _, source := range operations {
		found, err := graphqlparser.ParseQuery(source)
		if err != nil {
			return nil, fmt.Errorf("parse the operations: %w", err)
		}
		for _, operation := range found.Operations {
			for _, variable := range operation.VariableDefinitions {
				optional["__"+operation.Name+"Input."+variable.Variable] = !variable.Type.NonNull
			}
		}
	}
	return optional, nil
}

// sources reads the files that a pattern names.
func sources(pattern string) (found []*graphql.Source, err error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pattern, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read what the client asks: %w", err)
		}
		found = append(found, &graphql.Source{Name: name, Input: string(text)})
	}
	return found, nil
}
