package limit

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/reelay/reelay/graph/failure"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// fill repeats a part as often as 16 kB and the limit of tokens allow.
func fill(before, part, after string) string {
	return numbered(before, func(int) string { return part }, after)
}

// numbered is fill for a part that contains a number.
func numbered(before string, part func(i int) string, after string) string {
	parts := []string{""}
	for i := 0; len(before)+len(parts[i])+len(part(i))+len(after) <= 16<<10; i++ {
		parts = append(parts, parts[i]+part(i))
	}
	n := sort.Search(len(parts), func(n int) bool {
		_, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: before + parts[n] + after}, MaxTokens)
		return err != nil && strings.Contains(err.Error(), "token limit")
	})
	return before + parts[n-1] + after
}

// chain returns n fragments, each of which spreads the next.
func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "fragment F%d on Query{viewer{role}...F%d}", i, i+1)
	}
	return b.String() + fmt.Sprintf("fragment F%d on Query{viewer{role}}", n)
}

// pyramid returns nested fields: each contains k fields of the same name.
func pyramid(name string, k int) string {
	inner := name
	for {
		next := name + "{" + strings.Repeat(inner+" ", k) + "}"
		if strings.Count(next, name) > maxFields {
			return "{" + inner + " " + inner + "}"
		}
		inner = next
	}
}

// alikes returns as many fragments as allowed, full of the same fields.
func alikes() string {
	var b strings.Builder
	b.WriteString("{")
	for i := range maxFragments {
		fmt.Fprintf(&b, "...F%d ...F%d ", i, i)
	}
	b.WriteString("}")
	for i := range maxFragments {
		fmt.Fprintf(&b, "fragment F%d on Query{%s}", i, strings.Repeat("a{b} ", 12))
	}
	return b.String()
}

// Hostile holds queries of at most 16 kB that are designed to be expensive.
var Hostile = map[string]string{
	"fields twice over":   fill("{", "viewer{role}", "}"),
	"one field, often":    fill("{viewer{", "role ", "}}"),
	"one-letter nothings": fill("{", "a ", "}"),
	"fields with a field": fill("{", "a{b} ", "}"),
	"deep":                strings.Repeat("{a", 5000) + strings.Repeat("}", 5000),
	"deep lists":          "{viewer(a:" + strings.Repeat("[", 8000),
	"deep types":          "query($a:" + strings.Repeat("[", 8000) + "Int" + strings.Repeat("]", 8000) + "){viewer{role}}",
	"misspelt fields":     numbered("{viewer{", func(i int) string { return fmt.Sprintf("rol%d ", i) }, "}}"),
	"misspelt job fields": numbered(`{job(id:"x"){`, func(i int) string { return fmt.Sprintf("statu%d ", i) }, "}}"),
	"misspelt types": numbered("{viewer{role}} ", func(i int) string { return fmt.Sprintf("fragment f%d on Jo%d{id} ", i, i) },
		""),
	"misspelt enum values": numbered("{jobs(filter:{status:[", func(i int) string { return fmt.Sprintf("QUEUE%d ", i) },
		"]}){totalCount}}"),
	"misspelt arguments":         numbered("{jobs(", func(i int) string { return fmt.Sprintf("firs%d:1 ", i) }, "){totalCount}}"),
	"misspelt input":             numbered("{jobs(filter:{", func(i int) string { return fmt.Sprintf("statu%d:1 ", i) }, "}){totalCount}}"),
	"aliases":                    numbered("{", func(i int) string { return fmt.Sprintf(`a%d:job(id:"x"){id}`, i) }, "}"),
	"one alias":                  fill("{", `a:job(id:"x"){id}`, "}"),
	"one alias, other arguments": numbered("{", func(i int) string { return fmt.Sprintf(`a:job(id:"%d"){id}`, i) }, "}"),
	"submits": numbered("mutation{",
		func(i int) string { return fmt.Sprintf(`a%d:submitJob(input:{model:"m"}){job{id}}`, i) }, "}"),
	"directives":            fill("{viewer{role ", "@a ", "}}"),
	"known directives":      fill("{viewer{role ", "@skip(if:true)", "}}"),
	"operations":            numbered("", func(i int) string { return fmt.Sprintf("query Q%d{viewer{role}}", i) }, ""),
	"operations of no name": fill("", "{viewer{role}}", ""),
	"variables":             numbered("query(", func(i int) string { return fmt.Sprintf("$a%d:Int ", i) }, "){viewer{role}}"),
	"one variable, often":   fill("query(", "$a:Int ", "){viewer{role}}"),
	"undefined variables": numbered("{jobs(filter:{status:[", func(i int) string { return fmt.Sprintf("$a%d ", i) },
		"]}){totalCount}}"),
	"unused fragments":      numbered("{viewer{role}}", func(i int) string { return fmt.Sprintf("fragment f%d on Job{id}", i) }, ""),
	"one fragment, often":   fill("{viewer{role}}", "fragment f on Job{id}", ""),
	"spreads":               fill(`fragment f on Job{id}{job(id:"x"){`, "...f ", "}}"),
	"inline fragments":      fill(`{job(id:"x"){`, "...{id}", "}}"),
	"deep inline fragments": `{job(id:"x"){` + strings.Repeat("...{", 990) + "id" + strings.Repeat("}", 990) + "}}",
	"a bomb": numbered(`{job(id:"x"){...F0}}`, func(i int) string {
		return fmt.Sprintf("fragment F%d on Job{a:account{id}...F%d ...F%d}", i, i+1, i+1)
	}, "fragment F9999 on Job{id}"),
	"a bomb of fields": numbered(`{job(id:"x"){...F0}}`, func(i int) string {
		return fmt.Sprintf("fragment F%d on Job{dependsOn{...F%d}d:dependsOn{...F%d}}", i, i+1, i+1)
	}, ""),
	"a cycle": numbered(`{job(id:"x"){...F0}}`, func(i int) string {
		return fmt.Sprintf("fragment F%d on Job{id ...F%d ...F0}", i, i+1)
	}, ""),
	"all fragments in each": numbered(`{job(id:"x"){...F0 ...F1 ...F2 ...F3}}`, func(i int) string {
		return fmt.Sprintf("fragment F%d on Job{id ...F%d ...F%d ...F%d ...F%d}", i, i/2, i*2, i*2+1, i+1)
	}, ""),
	"operations with fragments": numbered(chain(100), func(i int) string { return fmt.Sprintf("query Q%d{...F0}", i) }, ""),
	"introspection, deep":       "{__schema{types{" + strings.Repeat("fields{type{", 200) + "name" + strings.Repeat("}}", 200) + "}}}",
	"introspection, wide":       numbered("{", func(i int) string { return fmt.Sprintf("a%d:__schema{types{name fields{name}}}", i) }, "}"),
	"overlapping twins":         fill("{", `a:job(id:"x"){attempts{worker{id}}}`, "}"),
	"overlapping pyramids":      strings.Repeat(`{job(id:"x"){attempts{worker{currentJob{id}}}} job(id:"x"){attempts{worker{currentJob{id}}}}}`, 1),
	"twins in twins":            pyramid("a", 2),
	"three in three":            pyramid("a", 3),
	"four in four":              pyramid("a", 4),
	"many fields":               numbered("{", func(i int) string { return []string{"a{b} ", "b{a} ", "c{d{e}} "}[i%3] }, "}"),
	"fragments alike":           alikes(),
	"comments":                  fill("{viewer{role}}", "#\n", ""),
	"commas":                    fill("{viewer{role}}", ",", ""),
	"a long name":               fill("{", "a", "}"),
	"a long text":               fill(`{job(id:"`, "x", `"){id}}`),
	"a block text":              fill(`{job(id:"""`, "\n  x", `"""){id}}`),
	"escapes":                   fill(`{job(id:"`, `\u00e9`, `"){id}}`),
	"lists":                     fill("{jobs(filter:{status:[", "QUEUED ", "]}){totalCount}}"),
	"objects":                   fill("{jobs(filter:{", "type:\"x\" ", "}){totalCount}}"),
}

// harmless lists the hostile queries that may run: their text is long, but they request
// little.
var harmless = []string{
	"a block text", "a long text", "comments", "commas", "escapes", "inline fragments", "lists", "overlapping pyramids",
}

// elsewhere lists the hostile queries that the parser or the validator refuses.
var elsewhere = map[string]apierror.Code{
	"fragments alike": failure.CodeInvalid, "misspelt arguments": failure.CodeInvalid, "misspelt enum values": failure.CodeInvalid,
	"misspelt input": failure.CodeInvalid, "objects": failure.CodeInvalid, "one variable, often": failure.CodeInvalid,
	"undefined variables": failure.CodeInvalid,
	"variables":           failure.CodeInvalid,
	"deep":                failure.CodeParseFailed, "deep inline fragments": failure.CodeParseFailed, "deep lists": failure.CodeParseFailed,
	"deep types": failure.CodeParseFailed,
}

// CodeOf returns the code with which a hostile query is refused, or "" if it may run.
func CodeOf(name string) apierror.Code {
	if slices.Contains(harmless, name) {
		return ""
	}
	return cmp.Or(elsewhere[name], failure.CodeTooComplex)
}
