package testcard

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// files are the paths of a result's files.
type files struct{ video, thumbnail, spritesheet string }

// filesIn returns the files of a result in a folder. The thumbnail is a WebP, or a
// JPEG if ffmpeg was built without WebP.
func filesIn(dir string) files {
	thumbnail := "thumbnail.webp"
	if !makesWebP() {
		thumbnail = "thumbnail.jpg"
	}
	return files{filepath.Join(dir, "video.mp4"), filepath.Join(dir, thumbnail), filepath.Join(dir, "spritesheet.jpg")}
}

// makesWebP asks ffmpeg once per process. A slow machine gets as much time as it needs: the
// agent ends a render that makes no progress.
var makesWebP = sync.OnceValue(func() bool {
	ffmpeg, err := findFFmpeg()
	if err != nil {
		return false
	}
	encoders, err := exec.Command(ffmpeg, "-hide_banner", "-loglevel", "error", "-encoders").Output()
	return err == nil && strings.Contains(string(encoders), " libwebp ")
})

// still returns the arguments that write one picture, in the format of its suffix.
func still(from, path string) []string {
	coder := []string{"-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p"}
	if filepath.Ext(path) == ".webp" {
		coder = []string{"-c:v", "libwebp", "-quality", "85", "-pix_fmt", "bgra"}
	}
	args := append([]string{"-map", from}, coder...)
	return append(args, "-frames:v", "1", "-threads", "1", "-flags:v", "+bitexact", "-f", "image2", "-update", "1", path)
}

const (
	thumbnailSide = 640 // the longer side, in pixels
	spriteSide    = 240
	sheetColumns  = 5
	mostSprites   = sheetColumns * sheetColumns
)

// thumbnailFilter selects the frame in the middle.
func (f video) thumbnailFilter() string {
	return fmt.Sprintf("select=eq(n\\,%d),", f.frames/2) + f.scale(thumbnailSide)
}

// spritesheetFilter selects frames at equal distances, beginning with the first
// frame, and lays them out in rows.
func (f video) spritesheetFilter() string {
	sprites := min(f.frames, mostSprites)
	columns := min(sprites, sheetColumns)
	rows := (sprites + columns - 1) / columns
	return fmt.Sprintf("select=lt(mod(n*%d\\,%d)\\,%d),%s,tile=%dx%d", sprites, f.frames, sprites, f.scale(spriteSide), columns, rows)
}

// scale returns a filter that scales the longer side of a frame to side pixels.
func (f video) scale(side int) string {
	longest := max(f.width, f.height)
	return fmt.Sprintf("scale=%d:%d", f.width*side/longest, f.height*side/longest)
}
