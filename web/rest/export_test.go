package rest

// The package's parsers, for tests.
var (
	Merge       = merge
	ReadPayload = readPayload
	WantsStream = wantsStream
)

// The types that they use.
type (
	Object = object
	Number = number
	Field  = field
)

// NewField makes a field.
func NewField(name, param string, value any) field { return field{name, param, value} }
