package models_test

import (
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

func TestOffer(t *testing.T) {
	t.Parallel()

	all := models.Offer{Models: []string{"a", "b"}, GPUType: "L4", Region: "eu"}
	batch := all
	batch.Tiers = []models.Tier{models.TierBatch}

	one := models.Offer{Accounts: []models.AccountID{"acc_1"}}
	require.True(t, all.ServesAccount("acc_1"))
	require.True(t, one.ServesAccount("acc_1"))
	require.False(t, one.ServesAccount("acc_2"))
	require.NotEqual(t, models.Offer{}.Key(), one.Key())
	require.True(t, all.ServesLane(models.TierPro))
	require.True(t, batch.ServesLane(models.TierBatch))
	require.False(t, batch.ServesLane(models.TierPro))
	require.NotEqual(t, all.Key(), batch.Key())
	batch.Tiers = []models.Tier{}
	require.Equal(t, all.Key(), batch.Key())
	require.NotEqual(t, models.Offer{Models: []string{"a b"}}.Key(), models.Offer{Models: []string{"a", "b"}}.Key())
}
