package console

import (
	"html"
	"net/http"
	"regexp"
	"testing"

	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/joblist"
	"github.com/stretchr/testify/require"
)

func TestViews(t *testing.T) {
	t.Parallel()

	t.Run("AreSavedRenamedSharedAndDeleted", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)

		form := hidden(b.get(t, "/views/new?q=age:%3C1h&status=FAILED").Body)
		form.Set("query", "q=age%3A%3C1h&status=FAILED")
		form.Set("name", `<b>Fresh</b> "failures"`)
		saved := b.post(t, "/views/new", form)
		require.Equal(t, "/jobs?q=age%3A%3C1h&status=FAILED", saved.Header.Get("Location"), saved.Body)
		again := b.post(t, "/views/new", form)
		require.Equal(t, http.StatusUnprocessableEntity, again.Status)
		require.Contains(t, again.Body, "A view named ")
		list := b.get(t, "/jobs?q=age%3A%3C1h&status=FAILED").Body
		require.Regexp(t, `aria-current="true">\s*&lt;b&gt;Fresh&lt;/b&gt;`, list)
		require.NotContains(t, list, "<b>Fresh")

		var id models.ViewID
		require.NoError(t, b.DB.NewSelect().Table("saved_views").Column("id").Scan(t.Context(), &id))
		form.Set("name", "Fresh failures")
		form.Set("shared", "1")
		require.Equal(t, http.StatusSeeOther, b.post(t, "/views/"+string(id)+"/edit", form).Status)
		require.Regexp(t, `(?s)Fresh failures.*everybody.*Delete Fresh failures`, b.get(t, "/views").Body)
		require.Contains(t, b.get(t, "/views/"+string(id)+"/delete").Body, "it is deleted for everybody")
		for range 2 { // a double click
			require.Equal(t, "/views", b.post(t, "/views/"+string(id)+"/delete", form).Header.Get("Location"))
		}
		require.NotContains(t, b.get(t, "/views").Body, "Fresh failures")
	})

	t.Run("SaysThatAFilterNoLongerParses", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		id := models.NewViewID()
		require.NoError(t, joblist.PutSavedView(t.Context(), b.DB, &joblist.SavedView{ID: id, Owner: "somebody", Shared: true, Name: "Old",
			Query: "q=colour%3Ared"}))

		require.Contains(t, b.get(t, "/views").Body,
			"This view no longer works: The search cannot be read at character 1: there is no key &#34;colour&#34;")
		opened := b.get(t, "/jobs?q=colour%3Ared")
		require.Equal(t, http.StatusUnprocessableEntity, opened.Status)
		require.Contains(t, opened.Body, "<mark>colour:red</mark>")
		form := hidden(b.get(t, "/views/"+string(id)+"/edit").Body)
		form.Set("name", "Old")
		form.Set("query", "q=colour%3Ablue")
		require.Equal(t, http.StatusUnprocessableEntity, b.post(t, "/views/"+string(id)+"/edit", form).Status)
		form.Set("query", "q=model%3Altx")
		require.Equal(t, http.StatusSeeOther, b.post(t, "/views/"+string(id)+"/edit", form).Status)
	})

	t.Run("OfOthersAreHidden", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		id := models.NewViewID()
		require.NoError(t, joblist.PutSavedView(t.Context(), b.DB, &joblist.SavedView{ID: id, Owner: "somebody", Name: "Private"}))

		require.NotContains(t, b.get(t, "/views").Body, "Private")
		require.Equal(t, http.StatusNotFound, b.get(t, "/views/"+string(id)+"/edit").Status)
	})

	t.Run("OfTheSystemParse", func(t *testing.T) {
		t.Parallel()

		b := operator(t)
		b.Submit(t)
		links := regexp.MustCompile(`<a href="(/jobs\?[^"]*)"[^>]*>(Running now|Failed today|Waiting longest|Dead-letter candidates)<`).FindAllStringSubmatch(b.get(t, "/jobs").Body, -1)
		require.Len(t, links, 4)
		for _, link := range links {
			got := b.get(t, html.UnescapeString(link[1]))
			require.Equal(t, http.StatusOK, got.Status, link[2])
			require.Contains(t, got.Body, `aria-current="true">`+link[2], link[2])
		}
	})
}
