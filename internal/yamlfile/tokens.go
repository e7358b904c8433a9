package yamlfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
	"github.com/reelay/reelay/internal/text"
)

// lost refuses what the parser would leave out without a word: text that the lexer could not read, such as
// `prompt: > a fox`, and all that follows an empty document.
func (f *File) lost(tokens token.Tokens) error {
	documents, markers := 0, 0
	filled, directive := false, false
	for _, t := range tokens {
		switch t.Type {
		case token.InvalidType:
			written := strings.TrimSpace(t.Origin)
			if strings.HasPrefix(written, ">") || strings.HasPrefix(written, "|") {
				return fmt.Errorf("%s:%d: > and | begin a text on the lines below: quote a text that begins with one", f.name, t.Position.Line)
			}
			return fmt.Errorf("%s:%d: %s", f.name, t.Position.Line, text.Clip(text.Printable(lexed(t)), maxText))
		case token.DocumentHeaderType, token.DocumentEndType:
			if t.Type == token.DocumentHeaderType {
				if markers > 0 && documents == 0 && !filled {
					return fmt.Errorf("%s:%d: the YAML document above this line is empty: remove one of the lines ---", f.name, t.Position.Line)
				}
				markers++
			}
			filled, directive = false, false
		case token.DirectiveType:
			directive = true
		case token.CommentType:
		default:
			if !filled && !directive {
				documents, filled = documents+1, true
			}
		}
	}
	if documents > 1 {
		return fmt.Errorf("%s: the file has %d YAML documents: it must have one", f.name, documents)
	}
	return nil
}

// lexed is what is wrong with a text that the lexer could not read.
func lexed(t *token.Token) string {
	if t.Error == "" {
		return "this cannot be read: " + strings.TrimSpace(t.Origin)
	}
	if says := advice(t.Error); says != "" {
		return says
	}
	return t.Error
}

// hinting adds to an error where the file has an invisible character, or one that only looks like a space.
func (f *File) hinting(err error, data []byte) error {
	odd := func(r rune) bool {
		return r > unicode.MaxASCII && (unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff')
	}
	i := bytes.IndexFunc(data, odd)
	if i < 0 {
		return err
	}
	r, _ := utf8.DecodeRune(data[i:])
	return fmt.Errorf("%w; line %d has a character that looks like a space or like nothing (%U): replace it, if it is not within a text",
		err, 1+bytes.Count(data[:i], []byte("\n")), r)
}
