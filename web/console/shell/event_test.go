package shell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvent(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTextFromEndingIt", func(t *testing.T) {
		t.Parallel()

		require.Equal(t, "id: 7\ndata: a\ndata: \ndata: event: end\ndata: b\n\n", string(event("7", []byte("a\r\n\revent: end\nb"))))
	})
}
