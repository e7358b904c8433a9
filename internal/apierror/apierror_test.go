package apierror_test

import (
	"testing"
	"time"

	"github.com/reelay/reelay/internal/apierror"
	"github.com/stretchr/testify/require"
)

func TestLater(t *testing.T) {
	t.Parallel()

	for after, says := range map[time.Duration]string{
		0: "1 s", 90 * time.Second: "90 s", 150 * time.Second: "2 min 30 s", 53206 * time.Second: "14 h 47 min", 49 * time.Hour: "2 days 1 h",
	} {
		err := apierror.Later(apierror.CodeBudgetExceeded, after, "It is spent.")

		require.Equal(t, "It is spent. Try again in "+says+".", err.Message)
	}
}
