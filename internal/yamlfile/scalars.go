package yamlfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/reelay/reelay/internal/text"
)

// Unquoted values have the types of the core schema of YAML 1.2, whatever the parser makes of them: it
// reads 010 as 8 and 1_000 as 1000, as YAML 1.1 did.
var (
	isNull    = regexp.MustCompile(`^(null|Null|NULL|~)$`)
	isBool    = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)
	isDecimal = regexp.MustCompile(`^[-+]?[0-9]+$`)
	isBased   = regexp.MustCompile(`^(0o[0-7]+|0x[0-9a-fA-F]+)$`)
	isFloat   = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	isInf     = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	hasZero   = regexp.MustCompile(`^[-+]?0[0-9]`)
)

// Shaped is a Document whose texts are known: those of T, by its json tags. They stay as they are
// written, so that `prompt: 007` is not the number 7.
type Shaped[T any] json.RawMessage

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *Shaped[T]) UnmarshalYAML(part ast.Node) (err error) {
	*s, err = inJSON(part)
	return err
}

func (s *Shaped[T]) shape() reflect.Type { return reflect.TypeFor[T]() }

// unquoted returns an unquoted value on one line as it is written.
func unquoted(n ast.Node) (written string, ok bool) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.StringNode:
		return n.GetToken().Value, n.GetToken().Type == token.StringType
	}
	return "", false
}

// resolve gives each unquoted value below a node the type that the Go type t asks for, and otherwise that
// of YAML 1.2. Where t is nil, nothing is known. It returns the node that takes the place of n.
func (f *File) resolve(n ast.Node, t reflect.Type) (_ ast.Node, err error) {
	t = plain(t)
	if t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.NodeUnmarshaler]()) {
		known, ok := reflect.New(t).Interface().(interface{ shape() reflect.Type })
		if t = nil; ok {
			t = known.shape()
		}
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		var of reflect.Type
		if t != nil && t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]() {
			of = t.Elem()
		}
		for i := range n.Values {
			if n.Values[i], err = f.resolve(n.Values[i], of); err != nil {
				return nil, err
			}
		}
	case *ast.MappingNode:
		for _, pair := range n.Values {
			if _, err := f.resolve(pair, t); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		if written, ok := unquoted(n.Key); ok && n.Key.GetToken().Type != token.ImplicitNullType {
			n.Key = asText(n.Key, written)
		}
		if n.Value, err = f.resolve(n.Value, typeOf(t, n.Key.GetToken().Value)); err != nil {
			return nil, err
		}
	default:
		if written, ok := unquoted(n); ok && n.GetToken().Type != token.ImplicitNullType {
			return f.scalar(n, written, t)
		}
		if _, isText := n.(*ast.StringNode); isText && t != nil && t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64 {
			return nil, f.refuse(n, "%s", f.mustBe(n.GetToken(), text.OfType(t))) // the decoder would convert it
		}
	}
	return n, nil
}

// scalar is resolve for an unquoted value.
func (f *File) scalar(n ast.Node, written string, t reflect.Type) (ast.Node, error) {
	kind := reflect.Interface
	if t != nil {
		kind = t.Kind()
	}
	isNumber := isDecimal.MatchString(written) || isBased.MatchString(written) || isFloat.MatchString(written)
	numeric := kind >= reflect.Int && kind <= reflect.Float64
	switch {
	case strings.Contains(written, ": "): // the parser takes it within braces, where a comma is missing
		return nil, f.refuse(n, "%s", advice("mapping value is not allowed"))
	case kind == reflect.String:
		if written == "null" { // as in JSON: not given
			return n, nil
		}
		return asText(n, written), nil
	case isNull.MatchString(written), isBool.MatchString(written):
		return n, nil
	case isInf.MatchString(written) && (kind == reflect.Float64 || kind == reflect.Float32):
		return n, nil // its limits refuse it
	case isInf.MatchString(written) && !numeric:
		return nil, f.refuse(n, `%s is %s: it must be a finite number`, fieldOf(n.GetPath()), written)
	case !isNumber && numeric:
		return nil, f.refuse(n, "%s", f.mustBe(n.GetToken(), text.OfType(t)))
	case !isNumber:
		return asText(n, written), nil
	case hasZero.MatchString(written):
		without := decimal(written)
		return nil, f.refuse(n, `%s is %s, which some programs read as octal: write %s for the number, or "%[2]s" for a text`,
			fieldOf(n.GetPath()), written, without)
	}
	number := decimal(written)
	if value, _ := strconv.ParseFloat(number, 64); numeric && math.IsInf(value, 0) {
		return nil, f.refuse(n, "%s is %s: that is too large", fieldOf(n.GetPath()), text.Clip(written, maxShown))
	}
	if kind >= reflect.Int && kind <= reflect.Uint64 {
		if value, err := strconv.ParseFloat(number, 64); err == nil && value == math.Trunc(value) && math.Abs(value) < 1<<53 &&
			strings.ContainsAny(number, ".eE") {
			number = strconv.FormatInt(int64(value), 10) // 1e3 and 2.0 are whole numbers
		}
	}
	return asNumber(n, number), nil
}

// refuse is an error at the line of a node.
func (f *File) refuse(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.name, n.GetToken().Position.Line, text.Clip(fmt.Sprintf(format, args...), maxText))
}

// decimal writes a number as JSON does: without a plus sign, zeros at its beginning, and a point without
// digits on both sides.
func decimal(written string) string {
	if isBased.MatchString(written) {
		value, _ := new(big.Int).SetString(written, 0) // the expression has only such
		return value.String()
	}
	sign := ""
	if written[0] == '-' {
		sign = "-"
	}
	digits := strings.TrimLeft(written, "+-")
	exponent := ""
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		digits, exponent = digits[:i], digits[i:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent
}

// asText returns a text in the place of a node. It keeps the token, by which problems are found.
func asText(n ast.Node, written string) *ast.StringNode {
	at := *n.GetToken()
	at.Type, at.Value = token.DoubleQuoteType, written // quoted: nothing reads a type into it
	node := ast.String(&at)
	node.SetPath(n.GetPath())
	return node
}

// asNumber returns a number in the place of a node.
func asNumber(n ast.Node, number string) ast.Node {
	at := *n.GetToken()
	at.Value = number
	var node ast.Node
	if value, err := strconv.ParseInt(number, 10, 64); err == nil {
		at.Type = token.IntegerType
		node = &ast.IntegerNode{BaseNode: &ast.BaseNode{}, Token: &at, Value: value}
	} else {
		value, _ := strconv.ParseFloat(number, 64) // ±Inf if it is too large
		at.Type = token.FloatType
		node = &ast.FloatNode{BaseNode: &ast.BaseNode{}, Token: &at, Value: value}
	}
	node.SetPath(n.GetPath())
	return node
}

// inJSON returns a node that resolve has been through as JSON, with its keys in their order and its
// numbers as they are written.
func inJSON(part ast.Node) ([]byte, error) {
	var out bytes.Buffer
	if err := writeJSON(&out, part); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, n ast.Node) error {
	switch n := n.(type) {
	case *ast.MappingNode:
		return writePairs(out, n.Values)
	case *ast.MappingValueNode:
		return writePairs(out, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		out.WriteByte('[')
		for i, entry := range n.Values {
			if i > 0 {
				out.WriteString(", ")
			}
			if err := writeJSON(out, entry); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case *ast.NullNode:
		out.WriteString("null")
	case *ast.BoolNode:
		out.WriteString(strconv.FormatBool(n.Value))
	case *ast.IntegerNode, *ast.FloatNode:
		out.WriteString(n.GetToken().Value)
	default:
		var value string
		if err := yaml.NodeToValue(n, &value); err != nil {
			return err
		}
		return writeText(out, value)
	}
	return nil
}

func writePairs(out *bytes.Buffer, pairs []*ast.MappingValueNode) error {
	out.WriteByte('{')
	for i, pair := range pairs {
		if i > 0 {
			out.WriteString(", ")
		}
		var key string
		if err := yaml.NodeToValue(pair.Key, &key); err != nil {
			return err
		}
		if err := writeText(out, key); err != nil {
			return err
		}
		out.WriteString(": ")
		if err := writeJSON(out, pair.Value); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeText(out *bytes.Buffer, s string) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s)
	out.Truncate(max(out.Len()-1, 0)) // the newline
	return err
}
