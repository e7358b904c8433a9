package submission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/reelay/reelay/client"
	"github.com/reelay/reelay/cmd/reelay/internal/output"
	"github.com/reelay/reelay/cmd/reelay/internal/progress"
	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

const (
	// takeWidth is the width of a preview on the contact sheet, in pixels, takeGap the space
	// around it, and takeLabel the height of the line below it.
	takeWidth, takeGap, takeLabel = 320, 8, 18
	// sheetCells and sheetRows are the most columns and rows of the sheet on a terminal.
	sheetCells, sheetRows = 160, 48
)

// take is the preview of a draft.
type take struct {
	label   string
	preview image.Image
}

// takePictures downloads the previews of the drafts that have one. The error names the first
// that cannot be shown; the others are returned.
func takePictures(ctx context.Context, c *client.Client, drafts []client.Job) (takes []take, problem error) {
	for i, draft := range drafts {
		if draft.Draft == nil || draft.Draft.Preview == nil {
			continue
		}
		img, err := progress.FetchPicture(ctx, c, draft.Draft.Preview)
		if err != nil {
			if problem == nil {
				problem = fmt.Errorf("draft %d: %w", i+1, err)
			}
			continue
		}
		takes = append(takes, take{fmt.Sprintf("%d  seed %s", i+1, seedOf(&draft)), img})
	}
	return takes, problem
}

// seedOf returns the seed of a draft, or "?".
func seedOf(draft *client.Job) string {
	var params struct {
		Seed json.Number `json:"seed"`
	}
	if json.Unmarshal(draft.Params, &params) != nil || params.Seed == "" {
		return "?"
	}
	return output.Clean(params.Seed.String())
}

// contactSheet draws previews in rows, each with its label below it.
func contactSheet(takes []take) image.Image {
	columns := min(4, len(takes))
	if len(takes) == 4 {
		columns = 2
	}
	rows := (len(takes) + columns - 1) / columns
	height := 1
	for _, t := range takes {
		size := t.preview.Bounds().Size()
		height = max(height, takeWidth*size.Y/max(1, size.X))
	}
	height = min(height, 2*takeWidth)
	sheet := image.NewRGBA(image.Rect(0, 0, takeGap+columns*(takeWidth+takeGap), takeGap+rows*(height+takeLabel+takeGap)))
	draw.Draw(sheet, sheet.Bounds(), image.NewUniform(color.Gray{Y: 24}), image.Point{}, draw.Src)
	for i, t := range takes {
		at := image.Pt(takeGap+i%columns*(takeWidth+takeGap), takeGap+i/columns*(height+takeLabel+takeGap))
		size := t.preview.Bounds().Size()
		scale := min(float64(takeWidth)/float64(size.X), float64(height)/float64(size.Y))
		fitted := image.Pt(int(float64(size.X)*scale), int(float64(size.Y)*scale))
		corner := at.Add(image.Pt((takeWidth-fitted.X)/2, (height-fitted.Y)/2))
		draw.CatmullRom.Scale(sheet, image.Rectangle{Min: corner, Max: corner.Add(fitted)}, t.preview, t.preview.Bounds(), draw.Src, nil)
		line := font.Drawer{
			Dst: sheet, Src: image.NewUniform(color.Gray{Y: 220}), Face: basicfont.Face7x13,
			Dot: fixed.P(at.X, at.Y+height+takeLabel-4),
		}
		line.DrawString(t.label)
	}
	return sheet
}

// writeSheet writes the contact sheet to path, or to a file named after the id of the takes.
func writeSheet(sheet image.Image, path, id string) (string, error) {
	if path == "" {
		path = "takes-" + strings.TrimPrefix(filepath.Base(id), "tak_") + ".png"
	}
	var data bytes.Buffer
	if err := png.Encode(&data, sheet); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, data.Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("write the contact sheet: %w; choose another file with --sheet", err)
	}
	return path, nil
}
