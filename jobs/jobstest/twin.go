package jobstest

import (
	"testing"

	"github.com/reelay/reelay/jobs/catalogue"
	"github.com/stretchr/testify/require"
)

// AddTwins adds models that are like the test card but for their names, which jobs of the test card can name as
// their fallback, and returns the test card.
func (s *Stack) AddTwins(t testing.TB, names ...string) *catalogue.Model {
	t.Helper()
	for _, name := range names {
		s.AddTwin(t, name, func(*catalogue.Model) {})
	}
	card, err := s.Submitter.Catalogue.Current().Model("testcard")
	require.NoError(t, err)
	return card
}

// AddTwin adds a model like the test card, of that name, as shape changes it.
func (s *Stack) AddTwin(t testing.TB, name string, shape func(*catalogue.Model)) {
	t.Helper()
	known := s.Submitter.Catalogue.Current()
	card, err := known.Model("testcard")
	require.NoError(t, err)
	twin := *card
	twin.Name = name
	shape(&twin)
	s.Submitter.Catalogue.Replace(catalogue.New(append(known.Models(), &twin)...))
}
