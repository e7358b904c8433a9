package pricebook_test

import (
	"testing"

	"github.com/reelay/reelay/jobs/jobstest"
)

func TestMain(m *testing.M) { jobstest.Main(m) }
