package console

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/signon"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
	"github.com/stretchr/testify/require"
)

func TestMemberLogIn(t *testing.T) {
	t.Parallel()

	t.Run("OpensANewSessionAndEndsTheOldOne", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)
		b.NewMember(t, "ana@example.com", access.RoleViewer)
		home, err := url.Parse(b.url)
		require.NoError(t, err)
		planted := &http.Cookie{Name: "reelay", Value: strings.Repeat("x", 43), Path: "/"}
		b.client.Jar.SetCookies(home, []*http.Cookie{planted})

		got := b.post(t, "/login", url.Values{"email": {"Ana@Example.com"}, "password": {jobstest.Password}, "next": {"//evil.example"}})
		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		require.Equal(t, "/overview", got.Header.Get("Location"))
		first := b.client.Jar.Cookies(home)[0].Value
		require.NotEqual(t, planted.Value, first)
		require.Contains(t, b.get(t, "/me").Body, "ana@example.com (viewer)")

		require.Equal(t, http.StatusSeeOther, b.post(t, "/login",
			url.Values{"email": {"ana@example.com"}, "password": {jobstest.Password}}).Status)
		lives, err := b.Keys.SessionLives(t.Context(), first)
		require.NoError(t, err)
		require.False(t, lives, "a session must not survive the next login of its browser")
	})

	t.Run("SaysWhyNot", func(t *testing.T) {
		t.Parallel()

		b := stranger(t)

		got := b.post(t, "/login", url.Values{"email": {"<b>@x\r\n"}, "password": {"secret word"}})
		require.Equal(t, http.StatusUnauthorized, got.Status)
		require.Contains(t, got.Body, "The e-mail address or the password is wrong.")
		require.NotContains(t, got.Body, "secret word")
		require.NotContains(t, got.Body, "<b>")
		got = b.post(t, "/login", url.Values{"email": {"ana@example.com"}, "password": {strings.Repeat("x", 1<<20)}})
		require.Equal(t, http.StatusRequestEntityTooLarge, got.Status)
		for range 11 {
			got = b.post(t, "/login", url.Values{"email": {"ana@example.com"}, "password": {"wrong"}})
		}
		require.Equal(t, http.StatusTooManyRequests, got.Status)
		require.Contains(t, got.Body, "Too many wrong passwords")
	})
}

func TestInvitation(t *testing.T) {
	t.Parallel()

	b := stranger(t)
	invitation, err := b.Members.Create(t.Context(), b.Admin, auth.NewMember{Email: "ana@example.com", Role: access.RoleOperator})
	require.NoError(t, err)
	path := "/join/" + invitation.Token

	require.Contains(t, b.get(t, path).Body, "ana@example.com")
	got := b.post(t, path, url.Values{"password": {jobstest.Password}, "again": {"another"}})
	require.Equal(t, http.StatusUnprocessableEntity, got.Status)
	require.Contains(t, got.Body, "not the same password")
	got = b.post(t, path, url.Values{"password": {"short"}, "again": {"short"}})
	require.Contains(t, got.Body, "12 to 256 characters")
	got = b.post(t, path, url.Values{"password": {jobstest.Password}, "again": {jobstest.Password}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
	require.Equal(t, http.StatusOK, b.get(t, "/me").Status)
	require.Equal(t, http.StatusNotFound, b.get(t, path).Status)
	require.Equal(t, http.StatusNotFound, b.get(t, "/join/x").Status)

	got = b.post(t, "/me/password", url.Values{"old": {"wrong"}, "password": {"another password"}, "again": {"another password"}})
	require.Contains(t, got.Body, "The old password is wrong.")
	got = b.post(t, "/me/password", url.Values{"old": {jobstest.Password}, "password": {"another password"}, "again": {"another password"}})
	require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
	require.Equal(t, http.StatusOK, b.get(t, "/me").Status, "the browser has a new session")
	require.Equal(t, http.StatusSeeOther, b.post(t, "/me/logout", nil).Status)
	require.Equal(t, http.StatusSeeOther, b.get(t, "/me").Status)
}

// token returns the form token of the browser's session.
func (b *browser) token(t *testing.T) string {
	t.Helper()
	home, err := url.Parse(b.url)
	require.NoError(t, err)
	for _, cookie := range b.client.Jar.Cookies(home) {
		if cookie.Name == "reelay" {
			return shell.NewFormToken(cookie.Value)
		}
	}
	return ""
}

func TestSingleSignOn(t *testing.T) {
	t.Parallel()

	// open opens a console with an OpenID provider.
	open := func(t *testing.T) (*browser, *mockoidc.MockOIDC) {
		t.Helper()
		m, err := mockoidc.Run()
		require.NoError(t, err)
		t.Cleanup(func() { m.Shutdown() })
		s := jobstest.New(t)
		s.Members.SSO = auth.SSOPolicy{Roles: map[string]access.Role{"ops": access.RoleOperator}, Account: "house"}
		config := configure(s)
		config.SSO = signon.New(signon.Config{
			Issuer: m.Issuer(), ClientID: m.ClientID, ClientSecret: func() string { return m.ClientSecret }, RedirectURL: "http://console.example/login/sso/callback",
			GroupsClaim: "groups",
			Scopes:      []string{"email", "profile", "groups"},
		})
		return serve(t, s, config), m
	}
	// back logs in at the provider and returns the address that it sends the browser to.
	back := func(t *testing.T, b *browser, next string) string {
		t.Helper()
		begun := b.get(t, "/login/sso?next="+url.QueryEscape(next))
		require.Equal(t, http.StatusSeeOther, begun.Status, begun.Body)
		res, err := b.client.Get(begun.Header.Get("Location"))
		require.NoError(t, err)
		res.Body.Close()
		address, err := url.Parse(res.Header.Get("Location"))
		require.NoError(t, err)
		require.Equal(t, "/login/sso/callback", address.Path)
		return address.RequestURI()
	}
	ana := &mockoidc.MockUser{Subject: "1", Email: "ana@example.com", EmailVerified: true, Groups: []string{"ops"}}

	t.Run("LogsIn", func(t *testing.T) {
		t.Parallel()

		b, m := open(t)
		m.QueueUser(ana)
		require.Contains(t, b.get(t, "/login?next=%2Fqueues").Body, `href="/login/sso?next=%2Fqueues"`)

		got := b.get(t, back(t, b, "/queues"))
		require.Equal(t, http.StatusSeeOther, got.Status, got.Body)
		require.Equal(t, "/queues", got.Header.Get("Location"))
		me := b.get(t, "/me").Body
		require.Contains(t, me, "ana@example.com (operator)")
		require.Contains(t, me, "There is no password here.")
	})

	t.Run("RefusesAPersonWithoutAGroup", func(t *testing.T) {
		t.Parallel()

		b, m := open(t)
		m.QueueUser(&mockoidc.MockUser{Subject: "2", Email: "bob@example.com", EmailVerified: true, Groups: []string{"guests"}})

		got := b.get(t, back(t, b, "https://evil.example"))
		require.Equal(t, http.StatusForbidden, got.Status)
		require.Contains(t, got.Body, "None of your groups has a role here.")
		require.Contains(t, got.Body, "guests")
		require.Equal(t, http.StatusSeeOther, b.get(t, "/me").Status)
	})

	t.Run("RefusesAnAnswerThatThisBrowserDidNotAskFor", func(t *testing.T) {
		t.Parallel()

		b, m := open(t)
		m.QueueUser(ana)
		stolen := back(t, b, "/jobs")
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		b.client.Jar = jar // another browser

		got := b.get(t, stolen)
		require.Equal(t, http.StatusForbidden, got.Status)
		require.Contains(t, got.Body, "Begin again.")
		for _, query := range []string{"", "?code=x&state=", "?state=x&error=access_denied"} {
			require.Equal(t, http.StatusForbidden, b.get(t, "/login/sso/callback"+query).Status, query)
		}
	})

	t.Run("OffersTheOtherWaysWhileTheProviderIsDown", func(t *testing.T) {
		t.Parallel()

		b, m := open(t)
		require.NoError(t, m.Shutdown())

		got := b.get(t, "/login/sso")
		require.Equal(t, http.StatusServiceUnavailable, got.Status)
		require.Contains(t, got.Body, "does not answer right now")
		require.Contains(t, got.Body, `name="password"`)
		require.Contains(t, got.Body, `name="key"`)
	})
}
