package shell

import (
	"context"
	"strings"
	"testing"

	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestFormToken(t *testing.T) {
	t.Parallel()

	mine, other := visit{formKey: formKeyOf("mine")}, visit{formKey: formKeyOf("other")}

	require.NoError(t, mine.checkToken(mine.token()))
	require.NotEqual(t, mine.token(), mine.token(), "each is masked")
	for name, given := range map[string]string{
		"none": "", "another session's": other.token(), "no base64": "%%%", "too short": mine.token()[4:], "the shared one": sharedToken,
	} {
		require.ErrorIs(t, mine.checkToken(given), errFormToken, name)
	}
	require.ErrorIs(t, visit{}.checkToken(mine.token()), errFormToken)

	ctx := context.WithValue(t.Context(), visitKey{}, mine)
	own := strings.TrimPrefix(string(ownTokens(ctx, []byte("token="+sharedToken))), "token=")
	require.NoError(t, mine.checkToken(own))
	require.Nil(t, Requires(shared(ctx, access.RoleAdmin), access.RoleOperator))
	require.Equal(t, "Requires the role operator. Your role is viewer.",
		Requires(shared(ctx, access.RoleViewer), access.RoleOperator)["title"])
}
