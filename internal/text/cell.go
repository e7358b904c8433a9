package text

import "regexp"

// formulaStart finds where a spreadsheet could let a formula begin: at the start of a cell, and
// after each character at which one of another locale or setting splits cells and lines. Spaces,
// invisible characters and quotes before the sign do not count. Besides the ASCII signs there
// are their full-width and small forms, which Excel in Japanese, Chinese and Korean takes for them.
var formulaStart = regexp.MustCompile("((?:^|[;\t\r\n|])[\\p{Z}\\p{C}\"'`]*)([=+\\-@＝＋－＠﹦﹢﹣﹫])")

// Cell keeps a spreadsheet from taking a text, or a part of it, for a formula: an apostrophe
// is before the sign then.
func Cell(cell string) string { return formulaStart.ReplaceAllString(cell, "$1'$2") }
