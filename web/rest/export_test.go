package rest

import "github.com/reelay/reelay/models"

// What tests of the package's own parsers need.
var (
	Merge       = merge
	ReadPayload = readPayload
	WantsStream = wantsStream
)

// The types that those take.
type (
	Object = object
	Number = number
	Field  = field
)

// MaxOpen is how many answers a key may have open.
const MaxOpen = maxOpen

// NewOpen counts open answers.
func NewOpen() *open { return &open{n: map[models.KeyID]int{}} }

// Begin is begin.
func (o *open) Begin(key models.KeyID) (func(), error) { return o.begin(key) }

// NewField makes a field.
func NewField(name, param string, value any) field { return field{name, param, value} }
