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
