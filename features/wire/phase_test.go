package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/wire"
	"github.com/reelay/reelay/models"
	"github.com/stretchr/testify/require"
)

// A phase that the document does not list breaks clients that are made from it.
func TestSummary_ListsAllPhases(t *testing.T) {
	t.Parallel()

	field, _ := reflect.TypeFor[wire.Summary]().FieldByName("Phase")
	listed := strings.Split(field.Tag.Get("enum"), ",")
	for _, phase := range []models.Phase{
		models.PhaseWaiting, models.PhaseStarting, models.PhaseLoadingModel, models.PhaseResuming, models.PhaseRendering, models.PhaseEncoding,
		models.PhaseSubmitted, models.PhaseGenerating, models.PhasePostProcessing, models.PhaseUploading, models.PhaseDone,
	} {
		require.Contains(t, listed, strings.ToLower(string(phase)))
	}
}
