//lint:file-ignore SA1019 the package calls its videos deprecated since OpenAI serves them no more; Reelay does

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/reelay/reelay/internal/testrun"
	"github.com/stretchr/testify/require"
)

const nodePackages = "clients/node/node_modules"

// TestVideos makes videos with the official packages over HTTPS, with a certificate of the
// stack.
func TestVideos(t *testing.T) {
	t.Parallel()

	s := start(t, "--agents", "1", "--tls-self-signed")
	ca := filepath.Join(s.data, "tls-cert.pem")
	// run runs a program as its user would, and returns the folder that it ran in.
	run := func(t *testing.T, program ...string) string {
		t.Helper()
		dir := t.TempDir()
		cmd := testrun.Command(t, program[0], program[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "REELAY_ENDPOINT="+s.keys.Endpoint, "REELAY_API_KEY="+s.keys.ClientKey,
			"SSL_CERT_FILE="+ca, "NODE_EXTRA_CA_CERTS="+ca)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return dir
	}
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(ca)
	require.NoError(t, err)
	require.True(t, trusted.AppendCertsFromPEM(text))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true}
	client := openai.NewClient(option.WithBaseURL(s.keys.Endpoint+"/v1"), option.WithAPIKey(s.keys.ClientKey),
		option.WithHTTPClient(&http.Client{Transport: transport}))
	program := filepath.Join(t.TempDir(), "example")
	built, err := testrun.Command(t, "go", "build", "-o", program, "./clients/go").CombinedOutput()
	require.NoError(t, err, string(built))

	t.Run("MakesAVideoForTheGoPackage", func(t *testing.T) {
		dir := run(t, program)

		require.Equal(t, "h264,720,1280,96", probeVideo(t, filepath.Join(dir, "boat.mp4")))
	})

	t.Run("GivesTheGoPackageEachVariant", func(t *testing.T) {
		made, err := client.Videos.List(t.Context(), openai.VideoListParams{})
		require.NoError(t, err)

		for variant, want := range map[openai.VideoDownloadContentParamsVariant]string{
			openai.VideoDownloadContentParamsVariantVideo:       "video/mp4 h264,720,1280,96",
			openai.VideoDownloadContentParamsVariantThumbnail:   "image/webp webp,360,640",
			openai.VideoDownloadContentParamsVariantSpritesheet: "image/jpeg mjpeg,675,1200",
		} {
			content, err := client.Videos.DownloadContent(t.Context(), made.Data[0].ID, openai.VideoDownloadContentParams{Variant: variant})
			require.NoError(t, err)
			defer content.Body.Close()
			path := filepath.Join(t.TempDir(), string(variant))
			file, err := os.Create(path)
			require.NoError(t, err)
			_, err = file.ReadFrom(content.Body)
			require.NoError(t, errors.Join(err, file.Close()))

			require.True(t, strings.HasPrefix(content.Header.Get("Content-Type")+" "+probeVideo(t, path), want), variant)
		}
	})

	t.Run("IsWhatTheNodePackageExpects", func(t *testing.T) {
		packages, err := filepath.Abs(nodePackages)
		require.NoError(t, err)
		if _, err := os.Stat(packages); err != nil {
			t.Skip("its packages are not there: `go tool task clients` fetches them")
		}
		made, err := client.Videos.List(t.Context(), openai.VideoListParams{})
		require.NoError(t, err)
		require.Equal(t, openai.VideoStatusCompleted, made.Data[0].Status)

		run(t, "node", filepath.Join(filepath.Dir(packages), "check.mjs"), made.Data[0].ID)
		run(t, "node", filepath.Join(filepath.Dir(packages), "webhooks.mjs"))
		dir := run(t, "node", filepath.Join(filepath.Dir(packages), "example.mjs"))

		require.Equal(t, "h264,720,1280,96", probeVideo(t, filepath.Join(dir, "boat.mp4")))
	})

	t.Run("BeginsAVideoWithThePictureOfTheNodePackage", func(t *testing.T) {
		packages, err := filepath.Abs(nodePackages)
		require.NoError(t, err)
		if _, err := os.Stat(packages); err != nil {
			t.Skip("its packages are not there: `go tool task clients` fetches them")
		}
		picture := filepath.Join(t.TempDir(), "boat.png")
		file, err := os.Create(picture)
		require.NoError(t, err)
		require.NoError(t, errors.Join(png.Encode(file, redAndBlue()), file.Close()))

		dir := run(t, "node", filepath.Join(filepath.Dir(packages), "reference.mjs"), picture)

		for _, name := range []string{"file.mp4", "link.mp4"} {
			video := filepath.Join(dir, name)
			require.Equal(t, "h264,720,1280,96", probeVideo(t, video))
			halves, err := testrun.Command(t, "ffmpeg", "-v", "error", "-i", video, "-frames:v", "1",
				"-vf", "format=rgb24,scale=2:1:flags=area", "-f", "rawvideo", "-").Output()
			require.NoError(t, err)
			require.Len(t, halves, 6)
			require.Greater(t, int(halves[0]), int(halves[3])+40, "%s is red on the left: %v", name, halves)
			require.Greater(t, int(halves[5]), int(halves[2])+40, "%s is blue on the right: %v", name, halves)
		}
	})

	t.Run("MakesAVideoForThePythonPackage", func(t *testing.T) {
		folder, err := filepath.Abs("clients/python")
		require.NoError(t, err)
		python := filepath.Join(folder, "venv/bin/python")
		if _, err := os.Stat(python); err != nil {
			t.Skip("its packages are not there: `go tool task clients` fetches them")
		}

		dir := run(t, python, filepath.Join(folder, "example.py"))

		require.Equal(t, "h264,720,1280,96", probeVideo(t, filepath.Join(dir, "boat.mp4")))
		run(t, python, filepath.Join(folder, "params.py"))
	})

	t.Run("SpeaksHTTP2AndNoPlainHTTP", func(t *testing.T) {
		res, err := (&http.Client{Transport: transport}).Get(s.keys.Endpoint + "/readyz")
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, 2, res.ProtoMajor)

		res, err = http.Get(strings.Replace(s.keys.Endpoint, "https", "http", 1) + "/readyz")
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusBadRequest, res.StatusCode)
	})

	t.Run("IsTrustedByTheCLI", func(t *testing.T) {
		out, err := testrun.Command(t, reelay, "list", "--data", s.data).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "COMPLETED")
	})
}

// redAndBlue is a picture of a video's size, red on the left and blue on the right.
func redAndBlue() image.Image {
	picture := image.NewRGBA(image.Rect(0, 0, 720, 1280))
	left := picture.Bounds()
	left.Max.X /= 2
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.RGBA{20, 20, 200, 255}), image.Point{}, draw.Src)
	draw.Draw(picture, left, image.NewUniform(color.RGBA{200, 20, 20, 255}), image.Point{}, draw.Src)
	return picture
}

// probeVideo returns a video's codec, width, height and number of frames.
func probeVideo(t *testing.T, path string) string {
	t.Helper()
	out, err := testrun.Command(t, "ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height,nb_frames",
		"-of", "csv=p=0", path).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// TestMigrating checks the guide against the programs that run here.
func TestMigrating(t *testing.T) {
	t.Parallel()

	guide, err := os.ReadFile("../docs/users/videos-api.md")
	require.NoError(t, err)
	for program, begins := range map[string]string{
		"clients/go/main.go": "package main", "clients/node/example.mjs": "import ", "clients/python/example.py": "import os",
	} {
		text, err := os.ReadFile(program)
		require.NoError(t, err)
		_, shown, ok := strings.Cut("\n"+string(text), "\n"+begins)
		require.True(t, ok, program)
		require.Contains(t, string(guide), begins+strings.TrimRight(shown, "\n"), program)
	}
}
