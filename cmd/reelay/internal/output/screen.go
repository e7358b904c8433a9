package output

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Screen is where a command prints. The zero value of the fields besides Writer is that of a
// file or a pipe.
type Screen struct {
	io.Writer
	// Width is the number of columns of a terminal, or 0 if the output is none.
	Width int
	// Height is the number of lines of a terminal, or 0 if the output is none.
	Height int
	// Color allows colours.
	Color bool
	// Wide adds the columns that are only shown with --output wide, and completes ids.
	Wide bool
	// Absolute shows moments as dates instead of "3 min ago".
	Absolute bool
}

// ScreenOf returns the screen of an output. A terminal has colours, unless its user does not
// want any: NO_COLOR is set, or TERM is dumb.
func ScreenOf(out io.Writer) *Screen {
	if s, ok := out.(*Screen); ok {
		return s
	}
	s := &Screen{Writer: out}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 1 {
		width, height = 80, 24
	}
	s.Width, s.Height = width, height
	return s
}

// On returns the same screen with another writer, such as a buffer that is flushed to it.
func (s *Screen) On(out io.Writer) *Screen {
	on := *s
	on.Writer = out
	return &on
}

// Paint returns a text in a colour, if the screen has colours.
func (s *Screen) Paint(c Color, text string) string {
	if !s.Color || c == "" || text == "" {
		return text
	}
	return string(c) + text + reset
}
