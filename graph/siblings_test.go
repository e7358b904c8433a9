package graph

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoader(t *testing.T) {
	t.Parallel()

	// load loads a key at a place.
	load := func(t *testing.T, l *loader[string, string], all *loaders, at *place, key string) {
		ctx := context.WithValue(context.WithValue(t.Context(), responseKey{}, responseOf(all)), placeKey{}, at)
		value, err := l.load(ctx, key)
		require.NoError(t, err)
		require.Equal(t, "value of "+key, value)
	}
	begin := func(within *place, alias string) *place {
		p := &place{within: within}
		within.fields = map[string]*place{alias: p}
		return p
	}

	t.Run("WaitsForNobodyWhoWaitsForIt", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := &loaders{siblings: newSiblings()}
			l := &loader[string, string]{fetch: valuesOf}
			outer := begin(all.siblings.response, "dependsOn")
			inner := begin(outer, "dependsOn")
			all.siblings.response.objects = 2
			begun := time.Now()

			var both sync.WaitGroup
			both.Go(func() { load(t, l, all, inner, "a") }) // of an outer field that is resolved
			synctest.Wait()
			both.Go(func() { load(t, l, all, outer, "a") }) // the other one
			both.Wait()

			require.Zero(t, time.Since(begun))
		})
	})

	t.Run("GoesOnWithoutWhoDoesNotCome", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := &loaders{siblings: newSiblings()}
			l := &loader[string, string]{fetch: valuesOf}
			all.siblings.response.objects = 2
			begun := time.Now()

			load(t, l, all, begin(all.siblings.response, "account"), "a")

			require.Equal(t, stragglers, time.Since(begun))
		})
	})
}

// responseOf is a response with these loaders.
func responseOf(all *loaders) *response {
	made := newResponse(nil)
	made.siblings, made.loaders = all.siblings, func() *loaders { return all }
	return made
}

func valuesOf(_ context.Context, keys []string) (map[string]string, error) {
	found := map[string]string{}
	for _, key := range keys {
		found[key] = "value of " + key
	}
	return found, nil
}
