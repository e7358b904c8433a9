package doctor

// Settings is settings.
var Settings = settings

// Drift is drift.
var Drift = drift
