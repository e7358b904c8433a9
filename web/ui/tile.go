package ui

// Tile is one figure, and the page that explains it.
type Tile struct {
	Name, Value, Note, Help, Link string
	// Level is calm, warn or bad.
	Level string
}
