package postgres

import (
	"bytes"

	"github.com/uptrace/bun/dialect/pgdialect"
)

// dialect is bun's dialect of PostgreSQL, with one correction: bun takes the text \u0000, six
// characters that JSON writes as \\u0000, for an escaped NUL. PostgreSQL would refuse the row.
type dialect struct{ *pgdialect.Dialect }

// newDialect returns the dialect of all connections.
func newDialect() dialect { return dialect{pgdialect.New()} }

// AppendJSON appends a JSON document as a literal of SQL. jsonb cannot hold a NUL character: its
// escape becomes the text \u0000.
func (dialect) AppendJSON(b, document []byte) []byte {
	b = append(b, '\'')
	for i := 0; i < len(document); i++ {
		switch rest := document[i:]; {
		case rest[0] == '\'':
			b = append(b, `''`...)
		case bytes.HasPrefix(rest, []byte(`\\`)):
			b = append(b, `\\`...)
			i++ // the second backslash begins no escape
		case bytes.HasPrefix(rest, []byte(`\u0000`)):
			b = append(b, `\\`...)
		default:
			b = append(b, rest[0])
		}
	}
	return append(b, '\'')
}
