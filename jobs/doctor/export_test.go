package doctor

// Settings is what a doctor says of PostgreSQL's settings.
var Settings = settings

// Drift is how far PostgreSQL's clock is from this machine's.
var Drift = drift
