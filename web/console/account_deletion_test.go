package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccountDeletionPages(t *testing.T) {
	t.Parallel()

	b := admin(t)
	b.Submit(t)
	account := "/accounts/" + string(b.Account.ID)
	require.Contains(t, b.get(t, account+"/edit").Body, `href="`+account+`/delete"`)
	require.Contains(t, b.get(t, account+"/delete").Body, "Type the name of the account to delete it")
	require.Equal(t, http.StatusNotFound, b.get(t, account+"/deletion").Status)
	got := b.post(t, account+"/delete", url.Values{"name": {"clients"}})
	require.Equal(t, http.StatusUnprocessableEntity, got.Status)
	require.Contains(t, got.Body, "This is not the name of the account")
	got = b.post(t, "/accounts/"+string(b.Admin.AccountID)+"/delete", url.Values{"name": {"house"}})
	require.Equal(t, http.StatusUnprocessableEntity, got.Status)
	require.Contains(t, got.Body, "the account of your own key")

	got = b.post(t, account+"/delete", url.Values{"name": {"client"}})

	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
	require.Equal(t, account+"/deletion", got.Header.Get("Location"))
	page := b.get(t, account+"/deletion").Body
	require.Contains(t, page, "1 job left. 1 job must end first")
	require.Contains(t, page, account+"/deletion/live")
	list := b.get(t, "/accounts").Body
	require.Contains(t, list, "Being deleted")
	got = b.post(t, account+"/delete", url.Values{"name": {"client"}})
	require.Equal(t, http.StatusSeeOther, got.Status, "sent twice, it is one deletion")
	_, err := b.Eraser.Pass(t.Context())
	require.NoError(t, err)
	page = b.get(t, account+"/deletion").Body
	require.Contains(t, page, "Nothing is left.")
	require.Contains(t, page, "Its files are gone from the object store by")
	require.Regexp(t, `(?s)<td>Jobs</td><td class="num">1</td>`, page)
	require.NotContains(t, page, account+"/deletion/live")
	list = b.get(t, "/accounts").Body
	require.NotContains(t, list, "Being deleted")
	require.Contains(t, list, "(deleted account)")

	o := operator(t)
	own := "/accounts/" + string(o.Account.ID)
	require.NotContains(t, o.get(t, own+"/edit").Body, own+"/delete")
	require.Equal(t, http.StatusForbidden, o.get(t, own+"/delete").Status)
	require.Equal(t, http.StatusForbidden, o.post(t, own+"/delete", url.Values{"name": {"client"}}).Status)
}
