package webhooks_test

import (
	"testing"

	"github.com/reelay/reelay/models/modelstest"
)

func TestMain(m *testing.M) { modelstest.Main(m.Run) }
