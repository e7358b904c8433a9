package text

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxNearest bounds the length of a word, in bytes, for which [Nearest] looks: a name that is
// longer is no slip of the hand, and the time grows with it.
const maxNearest = 128

// Nearest returns the word that is most like the given one, or "" if none is. A third of its letters
// may be wrong.
func Nearest(given string, words []string) (nearest string) {
	if len(given) > maxNearest {
		return ""
	}
	most := (len(given) + 2) / 3
	for _, word := range words {
		if d := distance(strings.ToLower(given), strings.ToLower(word)); d <= most {
			nearest, most = word, d-1
		}
	}
	return nearest
}

// distance is the number of letters that are wrong. Two letters in the wrong order count as one.
func distance(a, b string) int {
	d := levenshtein.ComputeDistance(a, b)
	if d == 2 && sorted(a) == sorted(b) {
		return 1
	}
	return d
}

func sorted(word string) string {
	letters := []rune(word)
	slices.Sort(letters)
	return string(letters)
}

// DidYouMean ends a message about an unknown word with the word that was probably meant:
// `; did you mean "pattern"?`. It returns "" if no word is near.
func DidYouMean(given string, words []string) string {
	if near := Nearest(given, words); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return ""
}
