package servers

import (
	"testing"

	"github.com/reelay/reelay/cmd/reelay/internal/settings"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/models/access"
	"github.com/reelay/reelay/models/modelstest"
	"github.com/stretchr/testify/require"
)

func TestMembersBootstrap(t *testing.T) {
	t.Parallel()
	cfg := settings.Read()
	cfg.DatabaseURL, cfg.PublicURL = modelstest.DSN(t), "https://reelay.example.com"

	first, err := bootstrapMember(t.Context(), cfg, "house", "Ana@example.com", false)
	_, second := bootstrapMember(t.Context(), cfg, "house", "ben@example.com", false)
	other, third := bootstrapMember(t.Context(), cfg, "house", "ben@example.com", true)

	require.NoError(t, err)
	require.Equal(t, "ana@example.com", first.Member.Email)
	require.Equal(t, access.RoleAdmin, first.Member.Role)
	require.NotEmpty(t, first.Token)
	require.True(t, apierror.HasCode(second, apierror.CodeConflict), second)
	require.NoError(t, third)
	require.Equal(t, first.Member.AccountID, other.Member.AccountID)

	cfg.PublicURL = ""
	_, err = bootstrapMember(t.Context(), cfg, "house", "cas@example.com", true)
	require.ErrorContains(t, err, "REELAY_PUBLIC_URL is not set")
}
