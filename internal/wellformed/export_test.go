package wellformed

// ByTokens is for tests.
var ByTokens = byTokens
