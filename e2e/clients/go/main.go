//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

// Command go uses OpenAI's own Go client against Reelay's Videos API.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	ctx := context.Background()
	client := openai.NewClient(
		option.WithBaseURL(os.Getenv("REELAY_ENDPOINT")+"/v1"),
		option.WithAPIKey(os.Getenv("REELAY_API_KEY")),
	)
	video, err := client.Videos.NewAndPoll(ctx, openai.VideoNewParams{
		Model: openai.VideoModelSora2, Prompt: "A paper boat on a calm sea", Seconds: openai.VideoSeconds4,
	}, 0)
	if err != nil {
		log.Fatal(err)
	}
	if video.Status != openai.VideoStatusCompleted {
		log.Fatal(video.Error.Message)
	}
	content, err := client.Videos.DownloadContent(ctx, video.ID, openai.VideoDownloadContentParams{})
	if err != nil {
		log.Fatal(err)
	}
	defer content.Body.Close()
	file, err := os.Create("boat.mp4")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, content.Body); err != nil {
		log.Fatal(err)
	}
}
