package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestAccountPages(t *testing.T) {
	t.Parallel()

	b := admin(t)
	b.Exec(t, "UPDATE accounts SET max_queued = 1000000, submits_per_minute = 1000000 WHERE id = ?", b.Account.ID)
	list := b.get(t, "/accounts").Body
	require.Contains(t, list, "client")
	require.Regexp(t, `(?s)data-label="Waiting">0\s*</td>.*data-label="Running">0  of \d.*data-label="Submits per minute">no limit<`, list)
	require.NotContains(t, list, "1\u202f000\u202f000", "a limit that is none")
	b.Exec(t, "UPDATE accounts SET max_queued = 5000 WHERE id = ?", b.Account.ID)
	edit := "/accounts/" + string(b.Account.ID) + "/edit"
	require.Contains(t, b.get(t, edit).Body, `name="weight"`)

	got := b.post(t, edit, url.Values{"name": {"client"}, "tier": {"ENTERPRISE"}, "maxRunning": {"7"}, "weight": {"2.5"}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
	changed, err := models.GetAccounts(t.Context(), b.DB, []models.AccountID{b.Account.ID})
	require.NoError(t, err)
	require.Equal(t, 7, changed[0].MaxRunning)
	require.InEpsilon(t, 2.5, changed[0].Weight, 0)
	require.Equal(t, b.Account.MaxQueued, changed[0].MaxQueued, "what is left out stays")

	for field, bad := range map[string]string{"maxQueued": "many", "weight": "0", "maxRunning": "-1", "draftsKeptHours": "0"} {
		got = b.post(t, edit, url.Values{"name": {"client"}, field: {bad}})
		require.Equal(t, http.StatusUnprocessableEntity, got.Status, field)
		require.Contains(t, got.Body, `id="`+field+`-error"`, field)
	}
	got = b.post(t, "/accounts/new", url.Values{"name": {"<b>acme</b>"}, "tier": {"PRO"}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
	require.Contains(t, b.get(t, "/accounts").Body, "&lt;b&gt;acme")
	require.Equal(t, http.StatusNotFound, b.get(t, "/accounts/acc_x/edit").Status)
}

func TestMemberPages(t *testing.T) {
	t.Parallel()

	b := admin(t)
	got := b.post(t, "/members", url.Values{"email": {"ana@example.com"}, "name": {"Ana"}, "role": {"OPERATOR"}})
	require.Equal(t, http.StatusOK, got.Status, got.Body)
	link := regexp.MustCompile(`http://[^<"]+/join/[\w-]{43}`).FindString(got.Body)
	require.NotEmpty(t, link)
	again := b.post(t, "/members", url.Values{"email": {"ana@example.com"}, "role": {"OPERATOR"}})
	require.Equal(t, http.StatusUnprocessableEntity, again.Status, "a form that is sent twice makes one member")
	require.Contains(t, again.Body, "already exists")
	require.NotContains(t, b.get(t, "/members").Body, "/join/")

	all, err := b.Members.List(t.Context(), b.Admin)
	require.NoError(t, err)
	page := "/members/" + string(all[0].ID)
	require.Contains(t, b.get(t, page).Body, "Reset the password")
	require.Equal(t, http.StatusSeeOther, b.post(t, page, url.Values{"name": {"Ana B"}, "role": {"VIEWER"}}).Status)
	require.Equal(t, http.StatusSeeOther, b.post(t, page+"/disable", nil).Status)
	require.Contains(t, b.get(t, "/members").Body, "is-disabled")
	require.Equal(t, http.StatusConflict, b.post(t, page+"/reset", nil).Status)
	require.Equal(t, http.StatusSeeOther, b.post(t, page+"/enable", nil).Status)
	require.Contains(t, b.post(t, page+"/reset", nil).Body, "/join/")
	require.Equal(t, http.StatusNotFound, b.get(t, "/members/mem_x").Status)

	require.NotContains(t, operator(t).get(t, "/jobs").Body, `href="/members"`, "an operator is not led to pages that it may not open")
}

func TestKeyPages(t *testing.T) {
	t.Parallel()

	b := admin(t)
	id := regexp.MustCompile(`name="id" value="(key_[^"]+)"`).FindStringSubmatch(b.get(t, "/keys/new").Body)[1]
	form := url.Values{"id": {id}, "name": {"dashboard"}, "account": {string(b.Account.ID)}, "role": {"VIEWER"}, "days": {"30"}}
	got := b.post(t, "/keys/new", form)
	require.Equal(t, http.StatusOK, got.Status, got.Body)
	secret := regexp.MustCompile(`rl_live_\w+`).FindString(got.Body)
	p, err := b.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, access.RoleViewer, p.Role)
	require.Equal(t, http.StatusConflict, b.post(t, "/keys/new", form).Status, "a form that is sent twice makes one key")
	list := b.get(t, "/keys").Body
	require.Contains(t, list, "dashboard")
	require.NotContains(t, list, secret)

	for field, bad := range map[string]string{"name": "", "role": "KING", "days": "-1"} {
		wrong := url.Values{"id": {string(models.NewKeyID())}, "name": {"x"}, "account": {string(b.Account.ID)}, "role": {"VIEWER"}}
		wrong.Set(field, bad)
		got = b.post(t, "/keys/new", wrong)
		require.Equal(t, http.StatusUnprocessableEntity, got.Status, field)
		require.Contains(t, got.Body, `id="`+field+`-error"`, field)
	}
	require.Contains(t, b.get(t, "/keys/"+id+"/revoke").Body, "Revoke the key dashboard?")
	require.Equal(t, http.StatusSeeOther, b.post(t, "/keys/"+id+"/revoke", nil).Status)
	_, err = b.Keys.Authenticate(t.Context(), secret)
	require.Error(t, err)
}

func TestAuditPage(t *testing.T) {
	t.Parallel()

	b := admin(t)
	one := 5
	_, err := b.Accounts.Update(t.Context(), b.Admin, b.Account.ID, auth.AccountInput{MaxRunning: &one})
	require.NoError(t, err)
	for range 50 {
		_, err := b.Operator.PauseQueue(t.Context(), b.Admin, models.TierPro, "", "<script>alert(1)</script>")
		require.NoError(t, err)
	}

	got := b.get(t, "/audit?action=updateAccount").Body
	require.Regexp(t, `<span class="quiet">max running:</span>\s+200 → 5`, got)
	require.Regexp(t, `(?s)<a href="/accounts/`+string(b.Account.ID)+`/edit">client</a>.*href="/audit\?action=updateAccount&amp;target=`+
		string(b.Account.ID)+`"`, got, "by name, with the id beside it")
	require.Regexp(t, `(?s)<summary class="quiet">JSON</summary>\s*<pre class="payload">\{`, got, "JSON is folded")
	_, _, err = b.Keys.Create(t.Context(), b.Admin, auth.NewKey{AccountID: b.Account.ID, Role: access.RoleClient, Name: "ci"})
	require.NoError(t, err)
	require.Regexp(t, `(?s)>account:</span>\s+client \(<a class="id" title="`+string(b.Account.ID)+`" href="/accounts/`+string(b.Account.ID)+
		`/edit">acc…[0-9a-f]{8}</a>\)`, b.get(t, "/audit?action=createApiKey").Body)
	require.NotContains(t, got, "pauseQueue</a>")
	first := b.get(t, "/audit?action=pauseQueue&actor=test+ADMIN")
	require.NotContains(t, first.Body, "<script>alert")
	require.Contains(t, b.get(t, "/audit").Body, `rel="next"`)
	require.Contains(t, b.get(t, "/audit?since=2020-01-01T00:00&until=2020-01-02").Body, "No actions match.")
	require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/audit?since=yesterday").Status)
	require.Equal(t, http.StatusUnprocessableEntity, b.get(t, "/audit?actor="+strings.Repeat("a", 300)).Status)
}
