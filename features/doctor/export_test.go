package doctor

// Settings is settings.
var Settings = settings

// Boots is boots.
var Boots = boots

// Drift is drift.
var Drift = drift
