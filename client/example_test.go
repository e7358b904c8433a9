package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/reelay/reelay/client"
)

// The example makes a video from a prompt. The client reconnects if a connection breaks, and
// resumes an interrupted download.
func Example() {
	ctx := context.Background()
	reelay, err := client.New("http://127.0.0.1:8080", os.Getenv("REELAY_API_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := reelay.SubmitJob(ctx, client.SubmitJobInput{Model: "testcard", Prompt: new("a lighthouse in the fog")})
	if err != nil {
		log.Fatal(err)
	}
	for job, err := range reelay.WatchJob(ctx, submitted.Job.Id, time.Second) {
		if err != nil {
			log.Print(err) // the client retries by itself
			continue
		}
		fmt.Printf("%s %.0f %%\n", job.Status, job.Progress.Percent)
		if job.Result == nil {
			continue
		}
		if err := reelay.Download(ctx, job.Result, "video.mp4", nil); err != nil {
			log.Fatal(err)
		}
	}
}

// What is shown of all jobs is read once, and then follows their changes.
func ExampleClient_JobChanges() {
	ctx := context.Background()
	reelay, err := client.New("http://127.0.0.1:8080", os.Getenv("REELAY_API_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	for job, err := range reelay.JobChanges(ctx, client.JobFilter{}) {
		if err != nil {
			log.Print("changes may be missing: read the list of jobs again: ", err)
			continue
		}
		fmt.Println(job.Id, job.Status)
	}
}

// Four drafts with different seeds show what the video would be. Only one of them is made.
func ExampleClient_SubmitTakes() {
	ctx := context.Background()
	reelay, err := client.New("http://127.0.0.1:8080", os.Getenv("REELAY_API_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	made, err := reelay.SubmitTakes(ctx, client.SubmitJobInput{
		Model: "testcard", Prompt: new("a lighthouse in the fog"), Draft: &client.DraftInput{Steps: 6},
	}, 4, nil)
	if err != nil {
		log.Fatal(err)
	}
	if made.Rejected > 0 {
		log.Fatal(made.Results[0].Error.Message)
	}
	draft := made.Results[0].Job
	for job, err := range reelay.WatchJob(ctx, draft.Id, time.Second) {
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(job.Status, job.Progress.Percent)
	}
	takes, err := reelay.Takes(ctx, *draft.Draft.Takes)
	if err != nil {
		log.Fatal(err)
	}
	for _, take := range takes {
		fmt.Println(take.Id, take.Status, string(take.Params))
	}
	video, err := reelay.ContinueJob(ctx, draft.Id) // only the steps that are left
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(video.Job.Id)
}
