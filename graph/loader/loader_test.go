package loader

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoader(t *testing.T) {
	t.Parallel()

	// lengths returns a loader of the lengths of words. It knows only short words.
	lengths := func(batches *[][]string) Loader[string, int] {
		return newLoader(Options{Wait: time.Second}, func(_ context.Context, words []string) (map[string]int, error) {
			*batches = append(*batches, slices.Sorted(slices.Values(words)))
			found := map[string]int{}
			for _, word := range words {
				if len(word) < 4 {
					found[word] = len(word)
				}
			}
			return found, nil
		})
	}

	t.Run("ReadsConcurrentKeysTogetherAndOnce", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var batches [][]string
			l := lengths(&batches)

			var all sync.WaitGroup
			for _, word := range []string{"a", "bb", "a", "ccc"} {
				all.Go(func() {
					n, err := l.Load(t.Context(), word)
					require.NoError(t, err)
					require.Equal(t, len(word), n)
				})
			}
			all.Wait()
			_, err := l.Load(t.Context(), "bb")

			require.NoError(t, err)
			require.Equal(t, [][]string{{"a", "bb", "ccc"}}, batches)
		})
	})

	t.Run("ReturnsTheZeroValueForAMissingKey", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var batches [][]string
			l := lengths(&batches)

			for _, word := range []string{"", "long word"} {
				n, err := l.Load(t.Context(), word)
				require.NoError(t, err)
				require.Zero(t, n)
			}

			require.Equal(t, [][]string{{"long word"}}, batches, "the zero key is not read")
		})
	})

	t.Run("ReadsWithTheContextOfItsShare", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			type share struct{}
			l := newLoader(Options{Reads: func(ctx context.Context) (context.Context, error) {
				return context.WithValue(ctx, share{}, 7), nil
			}}, func(ctx context.Context, _ []string) (map[string]any, error) {
				return map[string]any{"a": ctx.Value(share{})}, nil
			})

			got, err := l.Load(t.Context(), "a")

			require.NoError(t, err)
			require.Equal(t, 7, got)
		})
	})

	t.Run("TurnsAPanicIntoAnError", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLoader(Options{}, func(context.Context, []string) (map[string]int, error) { panic("no") })

			_, err := l.Load(t.Context(), "a")

			require.ErrorContains(t, err, "An internal error occurred")
		})
	})
}
