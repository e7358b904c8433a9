package rest

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

// NewField makes a field.
func NewField(name, param string, value any) field { return field{name, param, value} }
