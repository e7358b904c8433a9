package shell

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models/access"
	"github.com/samber/lo"
)

// May reports whether who looks at the page has the role. Templates disable the buttons of
// actions that the viewer may not perform: see requires.
func May(ctx context.Context, role access.Role) bool { return visitOf(ctx).Principal.May(role) }

// Requires returns the attributes of a button that needs the role: none if who looks at the
// page has it, else those that disable the button and say why.
func Requires(ctx context.Context, role access.Role) templ.Attributes {
	if May(ctx, role) {
		return nil
	}
	return templ.Attributes{"disabled": true, "title": lacks(ctx, role)}
}

// Titled is requires for a button of operators that says what it does.
func Titled(ctx context.Context, title string) templ.Attributes {
	if lacking := Requires(ctx, access.RoleOperator); lacking != nil {
		return lacking
	}
	return templ.Attributes{"title": title}
}

// lacks says why who looks at the page may not perform an action that needs the role.
func lacks(ctx context.Context, role access.Role) string {
	return "Requires the role " + strings.ToLower(string(role)) + ". Your role is " + strings.ToLower(string(visitOf(ctx).Principal.Role)) +
		"."
}

// roleOf returns the role that a route requires: VIEWER to read, OPERATOR to change
// something, ADMIN where the route says so.
func (r Route) roleOf(method string) access.Role {
	switch {
	case r.Admin:
		return access.RoleAdmin
	case r.Own || method == http.MethodGet || method == http.MethodHead:
		return access.RoleViewer
	}
	return access.RoleOperator
}

// admit refuses a request whose caller lacks the role of the route.
func (r Route) admit(method string, p jobs.Principal) error {
	if role := r.roleOf(method); !p.May(role) {
		return apierror.Forbidden("This requires the role %s. Your role is %s.", role, p.Role)
	}
	return nil
}

// csrfField is the name of the form field with the session's token.
const csrfField = "csrf"

// formKeyOf derives the secret of a session's form tokens from the session's cookie, which no
// other site can read.
func formKeyOf(session string) []byte {
	mac := hmac.New(sha256.New, []byte(session))
	mac.Write([]byte("reelay form token"))
	return mac.Sum(nil)
}

// sharedToken stands for each viewer's token in what several viewers share. ownTokens
// replaces it.
var sharedToken = "shared-" + rand.Text()

// shared returns a context for what viewers of a role share.
func shared(ctx context.Context, role access.Role) context.Context {
	return context.WithValue(ctx, visitKey{}, visit{Principal: jobs.Principal{Role: role}})
}

// NewFormToken returns a token for a form of the session with this cookie. Each has a random mask, so that the length of compressed
// pages does not reveal the key.
func NewFormToken(session string) string { return masked(formKeyOf(session)) }

// token returns a token for a form.
func (v visit) token() string {
	if v.formKey == nil {
		return sharedToken
	}
	return masked(v.formKey)
}

// masked returns a token with a key, under a random mask.
func masked(key []byte) string {
	token := make([]byte, 2*len(key))
	rand.Read(token[:len(key)])
	subtle.XORBytes(token[len(key):], token[:len(key)], key)
	return base64.RawURLEncoding.EncodeToString(token)
}

// ownTokens returns HTML that several viewers share with the token of one viewer.
func ownTokens(ctx context.Context, html []byte) []byte {
	if !bytes.Contains(html, []byte(sharedToken)) {
		return html
	}
	return bytes.ReplaceAll(html, []byte(sharedToken), []byte(visitOf(ctx).token()))
}

var errFormToken = apierror.Forbidden("This form belongs to another login, or is too old. Open the page again and repeat the action.")

// checkToken refuses a posted form without the token of the caller's session. It is a second
// line behind the check of the request's origin.
func (v visit) checkToken(given string) error {
	masked, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil || v.formKey == nil || len(masked) != 2*len(v.formKey) {
		return errFormToken
	}
	key := make([]byte, len(v.formKey))
	subtle.XORBytes(key, masked[:len(key)], masked[len(key):])
	if !hmac.Equal(key, v.formKey) {
		return errFormToken
	}
	return nil
}

// checkForm refuses a posted form without the token, which a script may send in a header.
func (v visit) checkForm(r *http.Request) error {
	given := r.Header.Get("X-CSRF-Token")
	if given == "" {
		if err := ReadForm(r); err != nil {
			return err
		}
		given = r.PostFormValue(csrfField) // also of a form with files
	}
	return v.checkToken(given)
}

// adminSections are the addresses of sections that only an ADMIN may open.
var adminSections = []string{"/members", "/keys", "/audit"}

// shownSections returns the sections that who looks at the page may open.
func shownSections(ctx context.Context, all []section) []section {
	return lo.Filter(all, func(s section, _ int) bool {
		return May(ctx, access.RoleAdmin) || !slices.Contains(adminSections, s.path)
	})
}
