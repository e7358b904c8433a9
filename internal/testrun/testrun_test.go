package testrun

import "testing"

func TestMain(m *testing.M) { Main(m.Run) }
