package inputs_test

import (
	"encoding/json"
	"fmt"
	"image/color"
	"strings"
	"testing"

	"github.com/reelay/reelay/features/fleet"
	"github.com/reelay/reelay/internal/apierror"
	"github.com/reelay/reelay/jobs"
	"github.com/reelay/reelay/jobs/inputs"
	"github.com/reelay/reelay/jobs/jobstest"
	"github.com/reelay/reelay/jobs/lease"
	"github.com/reelay/reelay/jobs/operate"
	"github.com/reelay/reelay/jobs/reference"
	"github.com/reelay/reelay/jobs/submit"
	"github.com/reelay/reelay/models"
	"github.com/reelay/reelay/models/access"
	"github.com/stretchr/testify/require"
)

func TestReference(t *testing.T) {
	t.Parallel()

	const id = "job_019a0000-0000-7000-8000-000000000000"
	for _, name := range []string{
		"https://example.com/a.png", "art_x", "art_x.firstFrame", "art_x.lastFrame", id, id + ".lastFrame", id + ".firstFrame",
		id + ".thumbnail", id + ".output", id + ".output.lines.0.text", "job_' OR true", "",
	} {
		r, err := reference.Parse(name)
		require.NoError(t, err, name)
		require.Equal(t, name, r.String())
	}
	video, err := reference.Parse(id + ".video")
	require.NoError(t, err)
	require.Equal(t, id, video.String())
	require.Equal(t, "{{"+id+".output.text}}", reference.Reference{Job: id, Take: "output.text"}.Placeholder())
	for _, bad := range []string{
		id + ".", id + ".poster", id + ".LastFrame", id + ".lastFrame.0", id + ".outputs", id + ".output.", id + ".output..a",
		id + ".output." + strings.Repeat("a", 201), id + ".output.a\nb", "art_x.", "art_x.video", "art_x.thumbnail", "art_x.output",
	} {
		_, err := reference.Parse(bad)
		require.Error(t, err, bad)
	}
}

// scribe registers a worker for the model words.
func scribe(t *testing.T, s *jobstest.Stack) jobs.Principal {
	t.Helper()
	_, secret, err := s.Registrar.Register(t.Context(), s.Enrolment, fleet.Registration{
		Provider: "static", ProviderInstanceID: "scribe", GPUCount: 1, Region: "local", GPUType: "any",
		CapacityClass: models.CapacitySpot, Models: []string{"words"}, AgentVersion: "test",
	})
	require.NoError(t, err)
	p, err := s.Keys.Authenticate(t.Context(), secret)
	require.NoError(t, err)
	return p
}

// words submits a job of the model words.
func words(t *testing.T, s *jobstest.Stack) *models.Job {
	t.Helper()
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "words"})
	require.NoError(t, err)
	return job
}

// write completes the job of the model words that is due with an output.
func write(t *testing.T, s *jobstest.Stack, worker jobs.Principal, output string) {
	t.Helper()
	_, fence := s.Lease(t, worker)
	_, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Output: json.RawMessage(output)})
	require.NoError(t, err)
}

// text returns a submission whose title is this text.
func text(title string) submit.Submission { return stitching(map[string]any{"title": title}) }

// value returns the placeholder of a value.
func value(job *models.Job, path string) string {
	return reference.Reference{Job: job.ID, Take: reference.Take("output" + path)}.Placeholder()
}

func submitText(t *testing.T, s *jobstest.Stack, title string) *models.Job {
	t.Helper()
	job, _, err := s.Submitter.Submit(t.Context(), s.Client, text(title))
	require.NoError(t, err)
	return job
}

func TestPictures(t *testing.T) {
	t.Parallel()

	// filmed completes a job with a video and a thumbnail.
	filmed := func(t *testing.T, s *jobstest.Stack, worker jobs.Principal) (done *models.Job, thumbnail models.ArtifactID) {
		t.Helper()
		_, fence := s.Lease(t, worker)
		video := s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("a video"))
		picture := s.Upload(t, worker, fence, models.ArtifactThumbnail, []byte("a picture"))
		end, err := s.Attempts.Complete(t.Context(), worker, fence, lease.Completion{Video: &video, Thumbnail: &picture})
		require.NoError(t, err)
		for id, a := range jobstest.Artifacts(t, s, end.Job.ID) {
			if a.Type == models.ArtifactThumbnail {
				thumbnail = id
			}
		}
		return end.Job, thumbnail
	}

	t.Run("OfAJobAreWaitedForAndGivenToTheWorker", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source := s.Submit(t)
		of := func(part string) string { return string(source.ID) + part }
		job := submitStitch(t, s, map[string]any{
			"referenceImage": of(".lastFrame"), "clips": []any{of(".video")}, "logos": []any{of(".thumbnail"), of(".firstFrame"), of(".lastFrame")},
		})
		done, thumbnail := filmed(t, s, s.Worker(t, "one"))
		late := submitStitch(t, s, map[string]any{"logos": []any{string(done.ResultID) + ".lastFrame", of(".thumbnail")}})
		_, refused := s.Deleter.Delete(t.Context(), s.Client, source.ID)
		worker := stitcher(t, s)

		granted, fence := s.Lease(t, worker)
		_, err := s.Attempts.Complete(t.Context(), worker, fence,
			lease.Completion{Video: new(s.Upload(t, worker, fence, models.ArtifactFinalVideo, []byte("whole")))})
		require.NoError(t, err)
		next, _ := s.Lease(t, worker)

		require.Equal(t, models.JobBlocked, job.Status)
		jobstest.RequireCode(t, refused, apierror.CodeConflict)
		names, ids := named(granted)
		require.Equal(t, []string{"referenceImage", "clips.0", "logos.0", "logos.1", "logos.2"}, names)
		require.Equal(t, []models.ArtifactID{done.ResultID, done.ResultID, thumbnail, done.ResultID, done.ResultID}, ids)
		require.Equal(t, []reference.Take{reference.TakeLastFrame, "", "", reference.TakeFirstFrame, reference.TakeLastFrame}, takes(granted))
		require.Equal(t, late.ID, next.Job.ID)
		require.Equal(t, []reference.Take{reference.TakeLastFrame, ""}, takes(next))
		s.RequireInvariants(t)
	})

	t.Run("AndFramesOfUploadedVideosAreGivenToTheWorker", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		clip := s.UploadMedia(t, s.Client, "video/mp4", []byte(mp4))
		submitStitch(t, s, map[string]any{"referenceImage": string(clip) + ".lastFrame", "clips": []any{clip}})

		lease, _ := s.Lease(t, stitcher(t, s))

		_, ids := named(lease)
		require.Equal(t, []models.ArtifactID{clip, clip}, ids)
		require.Equal(t, []reference.Take{reference.TakeLastFrame, ""}, takes(lease))
		s.RequireInvariants(t)
	})

	t.Run("AreRefusedWithTheirPlace", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		foreign, _, err := s.Submitter.Submit(t.Context(), other, jobstest.Submission())
		require.NoError(t, err)
		bare := s.Submit(t)
		finish(t, s, s.Worker(t, "one"))
		finish(t, s, s.Worker(t, "two"))
		silent := words(t, s)
		draft := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) { in.Draft = &submit.Draft{Steps: 6} })
		image := s.UploadInput(t, s.Client, jobstest.Picture(t, color.White))
		own := s.Submit(t)

		for name, bad := range map[string]struct {
			param string
			value any
			code  apierror.Code
			says  string
		}{
			"an unknown part": {"referenceImage", string(own.ID) + ".poster", apierror.CodeInvalidInput,
				"a job has .video, .firstFrame"},
			"a value":                      {"referenceImage", string(own.ID) + ".output.url", apierror.CodeInvalidInput, "is a value"},
			"a job":                        {"referenceImage", own.ID, apierror.CodeInvalidInput, "such as " + string(own.ID) + ".lastFrame"},
			"a frame as a video":           {"audio", string(own.ID) + ".lastFrame", apierror.CodeInvalidInput, "is an image"},
			"a thumbnail as a video":       {"audio", string(own.ID) + ".thumbnail", apierror.CodeInvalidInput, "is an image"},
			"a thumbnail that is not kept": {"referenceImage", string(bare.ID) + ".thumbnail", apierror.CodeInvalidInput, "has no thumbnail"},
			"a frame of a job without":     {"referenceImage", string(silent.ID) + ".lastFrame", apierror.CodeInvalidInput, "makes no video"},
			"a thumbnail of a job without": {"referenceImage", string(silent.ID) + ".thumbnail", apierror.CodeInvalidInput, "makes no thumbnail"},
			"a frame of a draft":           {"referenceImage", string(draft.ID) + ".lastFrame", apierror.CodeInvalidInput, "is a draft"},
			"a frame of an image":          {"referenceImage", string(image) + ".lastFrame", apierror.CodeInvalidInput, "only a video has frames"},
			"a part of an upload":          {"referenceImage", string(image) + ".thumbnail", apierror.CodeInvalidInput, "a video has .firstFrame"},
			"another account's job":        {"referenceImage", string(foreign.ID) + ".lastFrame", apierror.CodeNotFound, ""},
			"a job that is not there":      {"referenceImage", string(models.NewJobID()) + ".thumbnail", apierror.CodeNotFound, ""},
			"no id":                        {"referenceImage", "job_'.lastFrame", apierror.CodeNotFound, ""},
		} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, stitching(map[string]any{bad.param: bad.value}))
			jobstest.RequireCode(t, err, bad.code)
			require.ErrorContains(t, err, bad.says, name)
			var refused *apierror.Error
			require.ErrorAs(t, err, &refused, name)
			require.Equal(t, "params."+bad.param, refused.Field, name)
		}
	})

	t.Run("ThatAJobDoesNotMakeFailThoseThatTakeThem", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source := s.Submit(t)
		taker := submitStitch(t, s, map[string]any{"logos": []any{string(source.ID) + ".thumbnail"}})
		below := submitStitch(t, s, map[string]any{"clips": []any{taker.ID, source.ID}})
		other := submitStitch(t, s, map[string]any{"clips": []any{source.ID}})

		finish(t, s, s.Worker(t, "one"))

		taker, below = s.Reload(t, taker.ID), s.Reload(t, below.ID)
		require.Equal(t, models.FailInvalidInput, taker.FailureClass)
		require.Equal(t, "it takes the thumbnail of job "+string(source.ID)+", which has none", taker.FailureReason)
		require.Equal(t, models.FailDependency, below.FailureClass)
		require.Equal(t, models.JobQueued, s.Reload(t, other.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("StayWhileAJobNeedsThem", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		s.Submit(t)
		done, thumbnail := filmed(t, s, s.Worker(t, "one"))
		job := submitStitch(t, s, map[string]any{"logos": []any{string(done.ID) + ".thumbnail"}})
		review := func() map[models.ArtifactID]*models.Artifact {
			s.Exec(t, "UPDATE artifacts SET review_at = clock_timestamp()")
			_, err := s.Upkeep.ReviewArtifacts(t.Context())
			require.NoError(t, err)
			return jobstest.Artifacts(t, s, done.ID)
		}
		jobstest.Age(t, s, "200 days")

		kept := review()
		_, err := s.Canceller.Cancel(t.Context(), s.Client, job.ID)
		require.NoError(t, err)
		gone := review()
		_, retried := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)

		require.Contains(t, kept, thumbnail)
		require.NotContains(t, gone, thumbnail)
		jobstest.RequireCode(t, retried, apierror.CodeConflict)
		require.ErrorContains(t, retried, "has no thumbnail")
	})
}

// takes returns the parts that the inputs of a lease are.
func takes(lease *lease.Lease) (all []reference.Take) {
	for _, in := range lease.Inputs {
		all = append(all, in.Take)
	}
	return all
}

func TestValues(t *testing.T) {
	t.Parallel()

	// title returns the title that the worker gets.
	title := func(t *testing.T, lease *lease.Lease) string {
		t.Helper()
		var params struct{ Title string }
		require.NoError(t, json.Unmarshal(lease.Params, &params))
		return params.Title
	}

	t.Run("OfOutputsFillTheTextsOfAJob", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		writer := scribe(t, s)
		source := words(t, s)
		in := text(`{{ x }} {{job_ "` + value(source, ".lines.0.text") + `" ` + value(source, ".n") + value(source, ".none") + " " +
			value(source, ".list"))
		in.Prompt = "say " + value(source, "") + value(source, ".lines.-1.text")
		in.IdempotencyKey = new("k")
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		const output = `{"lines": [{"text": "a \"fox\"\n{{job_x}}"}], "n": 1.50, "none": null, "list": [1, "ä"]}`

		write(t, s, writer, output)
		_, refused := s.Deleter.Delete(t.Context(), s.Client, source.ID)
		lease, _ := s.Lease(t, stitcher(t, s))
		prompt, err := inputs.FillPrompt(t.Context(), s.DB, job.ID, in.Prompt)
		require.NoError(t, err)
		again, deduplicated, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)

		require.Equal(t, models.JobBlocked, job.Status)
		jobstest.RequireCode(t, refused, apierror.CodeConflict)
		require.Equal(t, "{{ x }} {{job_ \"a \"fox\"\n{{job_x}}\" 1.50null [1, \"ä\"]", title(t, lease))
		require.Contains(t, prompt, `"n": 1.50`)
		require.True(t, strings.HasSuffix(prompt, "}a \"fox\"\n{{job_x}}"), prompt)
		require.True(t, deduplicated)
		require.Equal(t, job.ID, again.ID)
		require.Contains(t, string(s.Reload(t, job.ID).Params), value(source, ".n"), "the row keeps the placeholders")
		s.RequireInvariants(t)
	})

	t.Run("ThatCannotBeTakenFailTheJob", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		writer := scribe(t, s)
		first, second := words(t, s), words(t, s)
		good := submitText(t, s, value(first, ".small")+value(second, ".small"))
		below := submitStitch(t, s, map[string]any{"clips": []any{good.ID}})
		bad := map[string]*models.Job{
			"has no value at small.x":   submitText(t, s, value(first, ".small.x")),
			"has no value at list.1":    submitText(t, s, value(first, ".list.1")),
			"has 16385 bytes":           submitText(t, s, value(first, ".large")),
			"have 66000 bytes together": submitText(t, s, strings.Repeat(value(first, ".medium"), 3)+strings.Repeat(value(second, ".medium"), 3)),
		}
		output := fmt.Sprintf(`{"small": "s", "list": [0], "medium": %q, "large": %q}`, strings.Repeat("m", 11_000),
			strings.Repeat("l", 16<<10+1))

		write(t, s, writer, output)
		write(t, s, writer, output)

		for says, job := range bad {
			job = s.Reload(t, job.ID)
			require.Equal(t, models.FailInvalidInput, job.FailureClass, says)
			require.Contains(t, job.FailureReason, says)
			_, retried := s.Retrier.Retry(t.Context(), s.Client, job.ID, false)
			jobstest.RequireCode(t, retried, apierror.CodeConflict)
			require.ErrorContains(t, retried, says)
		}
		require.Equal(t, models.JobQueued, s.Reload(t, good.ID).Status)
		require.Equal(t, models.JobBlocked, s.Reload(t, below.ID).Status)
		s.RequireInvariants(t)
	})

	t.Run("AreCheckedAtTheSubmitIfTheJobHasEnded", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		done, empty := words(t, s), words(t, s)
		writer := scribe(t, s)
		write(t, s, writer, fmt.Sprintf(`{"large": %q, "medium": %q}`, strings.Repeat("l", 16<<10+1), strings.Repeat("m", 16<<10)))
		write(t, s, writer, "")
		other := s.NewKey(t, s.NewAccount(t, "other", models.TierEnterprise), access.RoleClient)
		foreign, _, err := s.Submitter.Submit(t.Context(), other, submit.Submission{Model: "words"})
		require.NoError(t, err)

		submitText(t, s, strings.Repeat(value(done, ".medium"), 4))
		for title, says := range map[string]string{
			value(done, ".none"):                           "the output of job " + string(done.ID) + " has no value at none",
			value(done, ".large"):                          "has 16385 bytes, and a text may contain one of 16384 bytes",
			value(empty, ""):                               "job " + string(empty.ID) + " has no output",
			strings.Repeat(value(done, ".medium"), 5):      "have 81920 bytes together, and may have 65536 bytes",
			strings.Repeat(value(done, ".none"), 51):       "contain 51 values of other jobs; a job may have 50",
			"{{" + string(done.ID) + ".lastFrame}}":        "is a file",
			"{{" + string(done.ID) + "}}":                  "write {{" + string(done.ID) + ".output}}",
			"{{" + string(done.ID) + ".outputs}}":          "a job has .video, .firstFrame",
			"{{" + string(done.ID) + ".output..a}}":        "has an empty part",
			"{{" + string(foreign.ID) + ".output}}":        "There is no such",
			"{{" + string(models.NewJobID()) + ".output}}": "There is no such",
			"{{job_' OR true.output}}":                     "There is no such",
		} {
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, text(title))
			require.ErrorContains(t, err, says)
			jobstest.RequireCode(t, err, map[bool]apierror.Code{true: apierror.CodeNotFound,
				false: apierror.CodeInvalidInput}[says == "There is no such"])
		}
		s.RequireInvariants(t)
	})

	t.Run("AreNoPartOfTheHostOfACall", func(t *testing.T) {
		t.Parallel()

		s := jobstest.New(t)
		s.SeedCatalogue(t)
		source := s.Submit(t)
		call := func(url string) error {
			params, _ := json.Marshal(map[string]string{"url": url})
			_, _, err := s.Submitter.Submit(t.Context(), s.Client, submit.Submission{Model: "http.call", Params: params})
			return err
		}
		host := value(source, ".host")

		require.NoError(t, call("https://example.com/"+host+"?q="+host))
		for _, url := range []string{host, host + "://example.com/", "https://" + host + "/", "https://example.com" + host, "https://" + host +
			"@example.com/", "https://example.com:" + host + "/"} {
			jobstest.RequireInvalid(t, call(url), "params.url")
		}
	})

	t.Run("AreThoseOfADraftInTheJobThatContinuesIt", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		writer, worker := scribe(t, s), s.Worker(t, "one")
		sources := []*models.Job{words(t, s), words(t, s)}
		write(t, s, writer, `{"mood": "calm"}`)
		write(t, s, writer, `{"mood": "wild"}`)
		var drafts []*models.Job
		for _, source := range sources {
			draft := jobstest.SubmitAs(t, s, s.Client, func(in *submit.Submission) {
				in.Prompt, in.Draft = value(source, ".mood"),
					&submit.Draft{Steps: 6}
			})
			drafts = append(drafts, jobstest.FinishDraft(t, s, worker, draft))
		}
		_, err := s.Deleter.Delete(t.Context(), s.Client, sources[1].ID)
		require.NoError(t, err)

		job, _, err := s.Submitter.Continue(t.Context(), s.Client, drafts[0].ID)
		require.NoError(t, err)
		prompt, err := inputs.FillPrompt(t.Context(), s.DB, job.ID, value(sources[0], ".mood"))
		require.NoError(t, err)
		_, _, gone := s.Submitter.Continue(t.Context(), s.Client, drafts[1].ID)

		require.Equal(t, "calm", prompt)
		jobstest.RequireCode(t, gone, apierror.CodeConflict)
		require.ErrorContains(t, gone, "has no value at mood")
		s.RequireInvariants(t)
	})

	t.Run("MayBeCorrectedByARedrive", func(t *testing.T) {
		t.Parallel()

		s := studio(t)
		source := words(t, s)
		in := text("a title")
		in.Prompt = value(source, ".wrong")
		job, _, err := s.Submitter.Submit(t.Context(), s.Client, in)
		require.NoError(t, err)
		write(t, s, scribe(t, s), `{"right": "yes"}`)
		letter, err := models.FindDeadLetter(t.Context(), s.DB, job.ID, 1)
		require.NoError(t, err)

		_, again := s.DeadLetters.Redrive(t.Context(), s.Admin, letter.ID, operate.Edit{Params: json.RawMessage(`{"title": "another"}`)})
		_, err = s.DeadLetters.Redrive(t.Context(), s.Admin, letter.ID, operate.Edit{Prompt: new(value(source, ".right"))})
		require.NoError(t, err)
		prompt, err := inputs.FillPrompt(t.Context(), s.DB, job.ID, value(source, ".right"))
		require.NoError(t, err)

		jobstest.RequireCode(t, again, apierror.CodeConflict)
		require.ErrorContains(t, again, "has no value at wrong")
		require.Equal(t, models.JobQueued, s.Reload(t, job.ID).Status)
		require.Equal(t, "yes", prompt)
		s.RequireInvariants(t)
	})
}
