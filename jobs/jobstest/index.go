package jobstest

// LoseIndex empties the ready index like a FLUSHALL, in one of two subtests.
var LoseIndex = map[string]func(*Stack){
	"ByTheIndex":       func(*Stack) {},
	"WithTheIndexLost": func(s *Stack) { s.Index().Lose() },
}
