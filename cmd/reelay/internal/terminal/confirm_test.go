package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAsk(t *testing.T) {
	t.Parallel()

	for answer, agrees := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false, "": false, "yellow\n": false} {
		var out strings.Builder

		err := ask(strings.NewReader(answer), &out, "Delete 1 job?")

		require.Equal(t, agrees, err == nil, answer)
		require.Equal(t, "Delete 1 job? [y/N] ", out.String())
	}
}
