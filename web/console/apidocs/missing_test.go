package apidocs

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/reelay/reelay/web/console/shell"
	"github.com/stretchr/testify/require"
)

func TestGraphiQL_SaysHowToGetWhatIsMissing(t *testing.T) {
	t.Parallel()

	w := httptest.NewRecorder()
	require.NoError(t, shell.Render(w, httptest.NewRequest(http.MethodGet, "/graphql", nil), http.StatusOK, graphiqlMissing()))

	require.Contains(t, w.Body.String(), "go tool task assets")
}
