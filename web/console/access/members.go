package access

import (
	"errors"
	"net/http"
	"time"

	"github.com/reelay/reelay/features/auth"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/web/console/shell"
)

// memberList is the view of the members, with the form of a new one.
type memberList struct {
	Rows []*access.Member
	// Self is the member who looks; "" for a key.
	Self  models.MemberID
	Email string
	Name  string
	Role  access.Role
	// Errors are those of the form.
	Errors map[string]string
	Now    time.Time
}

var memberRoles = []access.Role{access.RoleViewer, access.RoleOperator, access.RoleAdmin}

func (c *controller) memberList(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	return c.showMembers(w, r, p, http.StatusOK, &memberList{Role: access.RoleViewer})
}

func (c *controller) showMembers(w http.ResponseWriter, r *http.Request, p jobs.Principal, status int, v *memberList) error {
	var err error
	if v.Rows, err = c.Members.List(r.Context(), p); err != nil {
		return err
	}
	if v.Now = time.Now(); p.Member != nil {
		v.Self = p.Member.ID
	}
	return shell.Render(w, r, status, memberListPage(v))
}

// memberCreate makes a member and shows its link, once.
func (c *controller) memberCreate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	v := &memberList{Email: r.PostForm.Get("email"), Name: r.PostForm.Get("name"), Role: access.Role(r.PostForm.Get("role"))}
	invitation, err := c.Members.Create(r.Context(), p, auth.NewMember{Email: v.Email, Name: v.Name, Role: v.Role})
	var refused *apierror.Error
	if errors.As(err, &refused) && (refused.Field != "" || refused.Code == apierror.CodeConflict) {
		field := refused.Field
		if field == "" {
			field = "email"
		}
		v.Errors = map[string]string{field: refused.Message}
		return c.showMembers(w, r, p, http.StatusUnprocessableEntity, v)
	}
	if err != nil {
		return err
	}
	return c.showInvitation(w, r, invitation)
}

func (c *controller) showInvitation(w http.ResponseWriter, r *http.Request, invitation *auth.Invitation) error {
	return shell.Render(w, r, http.StatusOK, invitationPage(invitation, c.Origin(r)+"/join/"+invitation.Token))
}

// memberShow is the form with which an admin changes a member.
func (c *controller) memberShow(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	member, err := c.Members.Get(r.Context(), p, models.MemberID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return shell.Render(w, r, http.StatusOK, memberShowPage(member, p.Member != nil && p.Member.ID == member.ID, time.Now()))
}

func (c *controller) memberUpdate(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	if err := shell.ReadForm(r); err != nil {
		return err
	}
	name := r.PostForm.Get("name")
	in := auth.MemberUpdate{Name: &name}
	if role := access.Role(r.PostForm.Get("role")); role != "" {
		in.Role = &role
	}
	member, err := c.Members.Update(r.Context(), p, models.MemberID(r.PathValue("id")), in)
	if err != nil {
		return err
	}
	return c.Done(w, r, "/members", "Saved "+member.Email+".")
}

func (c *controller) memberDisable(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	member, err := c.Members.Disable(r.Context(), p, models.MemberID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return c.Done(w, r, "/members", "Disabled "+member.Email+" and ended its logins.")
}

func (c *controller) memberEnable(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	member, err := c.Members.Enable(r.Context(), p, models.MemberID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return c.Done(w, r, "/members", "Enabled "+member.Email+".")
}

func (c *controller) memberReset(w http.ResponseWriter, r *http.Request, p jobs.Principal) error {
	invitation, err := c.Members.ResetPassword(r.Context(), p, models.MemberID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return c.showInvitation(w, r, invitation)
}

// memberState says whether and how a member can log in.
func memberState(m *access.Member) string {
	switch {
	case !m.DisabledAt.IsZero():
		return "DISABLED"
	case m.SingleSignOn(), m.HasPassword():
		return "ACTIVE"
	}
	return "INVITED"
}
