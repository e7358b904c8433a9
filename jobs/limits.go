package jobs

// The limits of requests, for APIs that describe them. Lengths are in characters.
const (
	MaxPromptRunes       = maxPromptRunes
	MaxKeyRunes          = maxKeyRunes
	MaxCancelReasonRunes = maxCancelReason
	MaxHaltReasonRunes   = maxHaltReason
	MaxMetadataKeys      = maxMetadataKeys
	MaxMetadataKeyBytes  = maxMetadataKeyBytes
	MaxMaxPreemptions    = maxMaxPreemptions
	MaxPricePerHour      = maxPricePerHour
)
