package kubernetes_test

import (
	"testing"

	"github.com/reelay/reelay/internal/testrun"
)

func TestMain(m *testing.M) { testrun.Main(m.Run) }
