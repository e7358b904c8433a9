package stitch

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/reelay/reelay/gpu/hdr"
)

const (
	maxSide    = 4096 // pixels
	maxFPS     = 120
	soundRate  = 48000
	fadeOut    = 1.0 // seconds in which the music ends
	defaultFPS = 24
)

// plan is a job whose size, frame rate and lengths are decided. Lengths are whole frames, so that the positions of
// cross-fades agree with the frames that arrive.
type plan struct {
	*job
	width, height int
	fps           float64
	frames        []int // of each clip
	fade          int   // frames of a cross-fade; 0 for cuts
	sound         bool  // whether the video has an audio track
}

// newPlan decides the size, the frame rate and the lengths. It refuses what cannot be joined.
func newPlan(j *job) (*plan, error) {
	first := j.clips[0]
	p := &plan{job: j, width: j.Width, height: j.Height, fps: j.FPS}
	if p.fps == 0 {
		p.fps = first.fps
	}
	if !(p.fps >= 1 && p.fps <= maxFPS) {
		p.fps = defaultFPS
	}
	p.width, p.height = size(j.Width, j.Height, first)
	shortest := math.MaxInt
	for i, c := range j.clips {
		n := int(math.Round(c.seconds * p.fps))
		if n < 1 {
			return nil, refuse("Clip %d is shorter than one frame.", i+1)
		}
		p.frames = append(p.frames, n)
		shortest = min(shortest, n)
		p.sound = p.sound || c.sound && !j.Muted
	}
	p.sound = p.sound || j.music != ""
	if len(j.clips) > 1 {
		p.fade = int(math.Round(j.CrossfadeSeconds * p.fps))
	}
	if p.fade > 0 && 2*p.fade > shortest {
		return nil, refuse("A cross-fade of %g s is too long: the shortest clip has %.2f s, and a cross-fade can take at most half of it.",
			j.CrossfadeSeconds, float64(shortest)/p.fps)
	}
	if p.seconds() > maxSeconds {
		return nil, refuse("The video would be %.0f s long: at most %d s are allowed.", p.seconds(), maxSeconds)
	}
	return p, nil
}

// size returns the size of the video, in even numbers as the codec needs. A side that is not
// given follows from the other and the shape of the first clip.
func size(width, height int, first clip) (int, int) {
	switch {
	case width == 0 && height == 0:
		width, height = first.width, first.height
	case width == 0:
		width = height * first.width / first.height
	case height == 0:
		height = width * first.height / first.width
	}
	if over := float64(max(width, height)) / maxSide; over > 1 {
		width, height = int(float64(width)/over), int(float64(height)/over)
	}
	even := func(n int) int { return max(2, n/2*2) }
	return even(width), even(height)
}

// seconds is the length of the video.
func (p *plan) seconds() float64 {
	total := -p.fade * (len(p.frames) - 1)
	for _, n := range p.frames {
		total += n
	}
	return p.at(total)
}

// at returns the time of a frame.
func (p *plan) at(frame int) float64 { return float64(frame) / p.fps }

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 6, 64) }

// graph returns the filters that make [video] and, if the video has sound, [sound].
func (p *plan) graph() string {
	var filters []string
	for i, n := range p.frames {
		filters = append(filters, p.picture(i, n))
		if p.sound {
			filters = append(filters, p.audio(i, n))
		}
	}
	if p.fade > 0 {
		filters = append(filters, p.crossfades()...)
	} else {
		filters = append(filters, p.cuts())
	}
	if p.music != "" {
		filters = append(filters, p.mix()...)
	}
	return strings.Join(filters, ";")
}

// picture fits a clip into the video without distorting it, and gives it the video's colours. A
// clip that has fewer frames than it announced repeats its last one.
func (p *plan) picture(i, frames int) string {
	c := p.clips[i]
	width, height := p.fitted(c)
	filters := []string{fmt.Sprintf("[%d:V:0]setpts=PTS-STARTPTS", i)}
	if c.look.interlaced {
		filters = append(filters, "yadif=mode=send_frame:deint=interlaced")
	}
	filters = append(filters, "fps="+rational(p.fps), c.look.scale(width, height))
	if hdr.Kind(c.look.transfer) != "" {
		filters = append(filters, hdr.Filters(c.look.transfer, c.look.primaries, c.look.matrix))
	}
	return strings.Join(append(filters, fmt.Sprintf("format=yuv420p,pad=%d:%d:(ow-iw)/2:(oh-ih)/2,setsar=1,"+
		"setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709,tpad=stop=%[3]d:stop_mode=clone,trim=end_frame=%[3]d,"+
		"setpts=PTS-STARTPTS,settb=AVTB[v%[4]d]", p.width, p.height, frames, i)), ",")
}

// fitted is the size of a clip in the video, in even numbers. A bar of one pixel is no bar.
func (p *plan) fitted(c clip) (width, height int) {
	width, height = p.width, p.height
	if c.width*p.height > p.width*c.height {
		height = int(math.Round(float64(p.width) * float64(c.height) / float64(c.width)))
	} else {
		width = int(math.Round(float64(p.height) * float64(c.width) / float64(c.height)))
	}
	fit := func(side, all int) int {
		if all-side < 2 {
			return all
		}
		return max(2, side/2*2)
	}
	return fit(width, p.width), fit(height, p.height)
}

// scale scales a clip, whatever the shape of its pixels. That of SDR gets the matrix and the range
// of BT.709.
func (l look) scale(width, height int) string {
	to := fmt.Sprintf("scale=%d:%d:flags=bicubic", width, height)
	if hdr.Kind(l.transfer) != "" {
		return to // converted afterwards, when it may be smaller
	}
	from := map[string]string{
		"bt709": "bt709", "smpte170m": "smpte170m", "bt470bg": "bt470bg", "smpte240m": "smpte240m", "fcc": "fcc", "bt2020nc": "bt2020",
		"bt2020c": "bt2020",
	}[l.matrix]
	if from == "" { // as players guess
		if from = "smpte170m"; l.rows >= 720 {
			from = "bt709"
		}
	}
	values := "tv"
	if l.full {
		values = "pc"
	}
	return fmt.Sprintf("%s:in_color_matrix=%s:in_range=%s:out_color_matrix=bt709:out_range=tv", to, from, values)
}

func rational(fps float64) string {
	if near := math.Round(fps*1001/1000) * 1000 / 1001; math.Abs(near-fps) < 1e-3 && math.Abs(math.Round(fps)-fps) > 1e-3 {
		return fmt.Sprintf("%.0f/1001", math.Round(fps*1001/1000)*1000)
	}
	return strconv.FormatFloat(fps, 'f', -1, 64)
}

// audio makes a clip's sound exactly as long as its picture. A clip without sound is silent.
func (p *plan) audio(i, frames int) string {
	to := fmt.Sprintf("atrim=duration=%s,asetpts=PTS-STARTPTS[a%d]", seconds(p.at(frames)), i)
	if !p.clips[i].sound || p.Muted {
		return fmt.Sprintf("anullsrc=sample_rate=%d:channel_layout=stereo,%s", soundRate, to)
	}
	return fmt.Sprintf("[%d:a:0]aresample=%d:async=1:first_pts=0,aformat=sample_fmts=fltp:channel_layouts=stereo,apad,%s", i, soundRate, to)
}

// joined is the label of the sound of the clips.
func (p *plan) joined() string {
	if p.music != "" {
		return "[clips]"
	}
	return "[sound]"
}

func (p *plan) cuts() string {
	var inputs strings.Builder
	for i := range p.frames {
		fmt.Fprintf(&inputs, "[v%d]", i)
		if p.sound {
			fmt.Fprintf(&inputs, "[a%d]", i)
		}
	}
	if !p.sound {
		return fmt.Sprintf("%sconcat=n=%d:v=1:a=0[video]", inputs.String(), len(p.frames))
	}
	return fmt.Sprintf("%sconcat=n=%d:v=1:a=1[video]%s", inputs.String(), len(p.frames), p.joined())
}

// crossfades joins the clips one after another. Each cross-fade begins where the video so far
// has its length left.
func (p *plan) crossfades() []string {
	var filters []string
	picture, sound, frames := "[v0]", "[a0]", p.frames[0]
	length := seconds(p.at(p.fade))
	for i := 1; i < len(p.frames); i++ {
		toPicture, toSound := fmt.Sprintf("[x%d]", i), fmt.Sprintf("[y%d]", i)
		if i == len(p.frames)-1 {
			toPicture, toSound = "[video]", p.joined()
		}
		filters = append(filters, fmt.Sprintf("%s[v%d]xfade=transition=%s:duration=%s:offset=%s%s",
			picture, i, p.transition(), length, seconds(p.at(frames-p.fade)), toPicture))
		if p.sound {
			filters = append(filters, fmt.Sprintf("%s[a%d]acrossfade=duration=%s:curve1=tri:curve2=tri%s", sound, i, length, toSound))
		}
		picture, sound, frames = toPicture, toSound, frames+p.frames[i]-p.fade
	}
	return filters
}

// transitions are those that a job can name. The name becomes part of a filter.
var transitions = map[string]bool{
	"fade": true, "fadeblack": true, "fadewhite": true, "dissolve": true, "wipeleft": true, "wiperight": true,
	"slideleft": true, "slideright": true, "circleopen": true, "radial": true,
}

func (p *plan) transition() string {
	if transitions[p.Transition] {
		return p.Transition
	}
	return "fade"
}

// mix adds the music, repeated as often as needed, to the sound of the clips.
func (p *plan) mix() []string {
	total := p.seconds()
	fade := math.Min(fadeOut, total/2)
	return []string{
		fmt.Sprintf("[%d:a:0]aresample=%d,aformat=sample_fmts=fltp:channel_layouts=stereo,volume=%s,atrim=duration=%s,afade=t=out:st=%s:d=%s[music]",
			len(p.clips), soundRate, seconds(min(max(p.MusicVolume, 0), 1)), seconds(total), seconds(total-fade), seconds(fade)),
		"[clips][music]amix=inputs=2:duration=first:normalize=0,alimiter=limit=0.97:level=0[sound]",
	}
}
