package quality_test

import (
	"fmt"
	"math/rand/v2"
)

// source makes good pictures of one kind.
type source struct {
	name  string
	graph func(shape) string
}

// scene is a colourful base picture without movement of its own.
func (s shape) scene() string {
	return pick(s.rng,
		s.in("mandelbrot=s={w}x{h}:r={r}:start_scale=%.4f:end_scale=%.4f,trim=end_frame=1,loop=-1:1:0,setpts=N/({r}*TB)", 0.3+s.rng.Float64(),
			0.2),
		s.gradients(5, 0.00001)+s.in(",trim=end_frame=1,loop=-1:1:0,setpts=N/({r}*TB)"),
		s.in("testsrc2=s={w}x{h}:r={r}:d=%d,trim=start_frame=%d,trim=end_frame=1,loop=-1:1:0,setpts=N/({r}*TB)", 9, s.rng.IntN(60)),
		s.in("smptehdbars=s={w}x{h}:r={r}"),
	)
}

// gradients turns n colours around a point. The colours follow from the seed, dark and
// light ones in turn: ffmpeg would draw them at random, seed or not, and two equal colours
// are a picture of a single one.
func (s shape) gradients(n int, speed float64) string {
	seed := s.rng.IntN(1e6)
	g := s.in("gradients=s={w}x{h}:r={r}:seed=%d:speed=%.5f:n=%d", seed, speed, n)
	s.rng = rand.New(rand.NewPCG(uint64(seed), 0))
	for i := range n {
		if i%2 == 0 {
			g += fmt.Sprintf(":c%d=%s", i, s.colour(0, 100))
		} else {
			g += fmt.Sprintf(":c%d=%s", i, s.colour(155, 255))
		}
	}
	return g
}

func (s shape) grain(strength int) string {
	return fmt.Sprintf("noise=alls=%d:allf=t:all_seed=%d", strength, s.rng.IntN(1e6))
}

// square is a moving square of one colour, laid over a graph.
func (s shape) square(over, colour string, size int, x, y string) string {
	return s.in("%s[under];color=%s:s=%dx%d:r={r}[square];[under][square]overlay=x='%s':y='%s':eval=frame:shortest=1", over, colour, size,
		size, x, y)
}

func (s shape) colour(least, most int) string {
	c := func() int { return least + s.rng.IntN(most-least+1) }
	return fmt.Sprintf("0x%02x%02x%02x", c(), c(), c())
}

// music is a tone, or noise.
func (s shape) music() string {
	return pick(s.rng,
		s.in("sine=f=%d:d={d}:r=44100", 200+s.rng.IntN(2000)),
		s.in("anoisesrc=d={d}:c=pink:r=48000:seed=%d:a=0.3", s.rng.IntN(1e6)),
		s.in("sine=f=%d:d={d}:r=48000,volume=-%ddB,aformat=channel_layouts=stereo", 100+s.rng.IntN(800), 20+s.rng.IntN(15)),
		s.in("aevalsrc='0.2*sin(2*PI*%d*t)*gt(sin(3*t),0)|0.1*sin(1500*t)':d={d}:s=44100", 300+s.rng.IntN(300)),
	)
}

var goodSources = []source{
	{"testsrc2", func(s shape) string { return s.in("testsrc2=s={w}x{h}:r={r}") }},
	{"testsrc", func(s shape) string { return s.in("testsrc=s={w}x{h}:r={r}") }},
	{"mandelbrot", func(s shape) string {
		return s.in("mandelbrot=s={w}x{h}:r={r}:start_scale=%.3f:end_pts=%d", 1+2*s.rng.Float64(), 200+s.rng.IntN(400))
	}},
	{"life", func(s shape) string {
		return s.in("life=s=%dx%d:r={r}:seed=%d:ratio=0.4:mold=10:life_color=%s:death_color=%s,scale={w}:{h}:flags=neighbor", s.w/4, s.h/4,
			s.rng.IntN(1e6), s.colour(150, 255), s.colour(0, 120))
	}},
	{"cellauto", func(s shape) string {
		return s.in("cellauto=s=%dx%d:r={r}:seed=%d:rule=%d,scale={w}:{h}:flags=neighbor", s.w/2, s.h/2, s.rng.IntN(1e6),
			pick(s.rng, 18, 30, 90, 110, 150))
	}},
	{"gradients", func(s shape) string {
		return s.gradients(2+s.rng.IntN(5), 0.003+0.02*s.rng.Float64())
	}},
	{"grain", func(s shape) string { return s.scene() + "," + s.grain(6+s.rng.IntN(10)) }},
	{"dark", func(s shape) string {
		return s.in("mandelbrot=s={w}x{h}:r={r}:start_scale=2:end_pts=%d,lutrgb=r=val*%.2f:g=val*%.2f:b=val*%.2f", 300+s.rng.IntN(300), 0.08+
			0.1*s.rng.Float64(), 0.08+0.1*s.rng.Float64(), 0.12+0.1*s.rng.Float64())
	}},
	{"night lights", func(s shape) string {
		g := s.in("color=%s:s={w}x{h}:r={r},%s", s.colour(0, 8), s.grain(3+s.rng.IntN(4)))
		for i := range 3 + s.rng.IntN(4) {
			x, y := s.rng.IntN(s.w-12), s.rng.IntN(s.h-12)
			g = s.in("%s[u%d];color=%s:s=%dx%d:r={r}[l%d];[u%d][l%d]overlay=x='%d+%.1f*t':y=%d:shortest=1", g, i, s.colour(120, 255),
				4+s.rng.IntN(5), 4+s.rng.IntN(5), i, i, i, x, 6*s.rng.Float64()-3, y)
		}
		return g
	}},
	{"slow zoom", func(s shape) string {
		return s.in("%s,zoompan=z='1+%.5f*on':x='iw/2-iw/zoom/2':y='ih/2-ih/zoom/2':d=1:s={w}x{h}:fps={r}", s.scene(), 0.001+
			0.003*s.rng.Float64())
	}},
	{"fog", func(s shape) string {
		return s.gradients(2, 0.004+0.01*s.rng.Float64()) + s.in(",lutyuv=y=%d+(val-128)*%.3f:u=128+(val-128)*0.08:v=128+(val-128)*0.08,%s",
			130+s.rng.IntN(60), 0.08+0.08*s.rng.Float64(), s.grain(2+s.rng.IntN(3)))
	}},
	{"fades", func(s shape) string {
		long := s.seconds * (0.2 + 0.3*s.rng.Float64())
		colour := pick(s.rng, "black", "black", "white", s.colour(0, 255))
		g := s.in("testsrc2=s={w}x{h}:r={r}")
		if s.rng.IntN(2) == 0 {
			g += fmt.Sprintf(",fade=t=in:d=%.2f:color=%s", long, colour)
		}
		return g + fmt.Sprintf(",fade=t=out:st=%.2f:d=%.2f:color=%s", s.seconds-long-0.3*s.rng.Float64(), long, colour)
	}},
	{"cartoon", func(s shape) string {
		g := s.in("color=%s:s={w}x{h}:r={r},drawbox=x=0:y=ih*2/3:w=iw:h=ih/3:t=fill:color=%s", s.colour(80, 250), s.colour(40, 200))
		return s.square(g, s.colour(0, 255), 20+s.rng.IntN(30), fmt.Sprintf("%d*t", 10+s.rng.IntN(50)),
			fmt.Sprintf("%d+10*sin(%d*t)", s.h/3, 2+s.rng.IntN(4)))
	}},
	{"slow motion", func(s shape) string {
		times := 2 + s.rng.IntN(3)
		return s.in("testsrc2=s={w}x{h}:r={r},setpts=%d*PTS,fps={r}", times)
	}},
	{"bright", func(s shape) string {
		return s.gradients(2, 0.01) + s.in(",lutyuv=y=235-(255-val)*%.2f:u=128+(val-128)*0.2:v=128+(val-128)*0.2", 0.05+0.1*s.rng.Float64())
	}},
	{"slides", func(s shape) string {
		g := s.in("color=%s:s={w}x{h}:r={r}", s.colour(200, 255))
		for line := range 4 {
			g += fmt.Sprintf(",drawbox=x=12:y=%d:w=%d:h=6:t=fill:color=%s", 12+line*16, s.w/3+s.rng.IntN(s.w/3), s.colour(0, 80))
		}
		return s.square(g, s.colour(0, 160), 8, fmt.Sprintf("8+%d*t", 8+s.rng.IntN(20)), fmt.Sprint(s.h-14))
	}},
}

// otherSources make good pictures by other means: none of them was used to choose the
// thresholds.
var otherSources = []source{
	{"sierpinski", func(s shape) string {
		return s.in("sierpinski=s={w}x{h}:r={r}:seed=%d:type=%s", s.rng.IntN(1e6), pick(s.rng, "carpet", "triangle"))
	}},
	{"plasma", func(s shape) string {
		return s.in("nullsrc=s={w}x{h}:r={r},geq=lum='128+60*sin(X/%d+T*2)+50*cos(Y/%d-T)':cb='128+60*sin((X+Y)/40+T)':cr='128+50*cos(X/30-T)'",
			10+s.rng.IntN(30), 10+s.rng.IntN(30))
	}},
	{"bars with hue", func(s shape) string {
		return s.in("pal75bars=s={w}x{h}:r={r},hue=h='%d*t'", 10+s.rng.IntN(40))
	}},
	{"rotation", func(s shape) string {
		return s.in("rgbtestsrc=s={w}x{h}:r={r},rotate=a='%.2f*t':c=gray", 0.05+0.4*s.rng.Float64())
	}},
	{"scroll", func(s shape) string {
		return s.in("haldclutsrc=level=5:r={r},scale={w}:{h}:flags=neighbor,scroll=h=%.4f:v=%.4f", 0.001+0.004*s.rng.Float64(),
			0.001*s.rng.Float64())
	}},
	{"candle", func(s shape) string { // a flickering light in the dark
		return s.in("nullsrc=s={w}x{h}:r={r},geq=lum='16+%d*(0.8+0.2*sin(9*T)*sin(5*T))*exp(-((X-W/2)^2+(Y-H/2)^2)/%d)':cb=120:cr=134",
			20+s.rng.IntN(60), 100+s.rng.IntN(600))
	}},
	{"stars", func(s shape) string {
		return s.in("nullsrc=s={w}x{h}:r={r},geq=lum='16+200*gt(mod(X*%d+Y*57+floor(X*Y/3)\\,211)\\,208)*(0.7+0.3*sin(3*T+X))':cb=128:cr=128",
			31+2*s.rng.IntN(20))
	}},
	{"mist", func(s shape) string { // nearly no contrast, slowly moving
		return s.in("nullsrc=s={w}x{h}:r={r},geq=lum='%d+%d*sin(X/60+T*0.7)*cos(Y/40-T*0.5)':cb=128:cr=126,%s", 120+s.rng.IntN(80),
			4+s.rng.IntN(5), s.grain(3))
	}},
	{"snow field", func(s shape) string {
		return s.square(s.in("color=0xf0f2f4:s={w}x{h}:r={r},vignette=a=%.2f,%s", 0.2+0.3*s.rng.Float64(), s.grain(3)), s.colour(60, 200),
			10+s.rng.IntN(10), "20+9*t", fmt.Sprint(s.h/2))
	}},
	{"interview", func(s shape) string { // a still room and a mouth that moves
		g := s.scene() + ",gblur=3," + s.grain(4)
		return s.square(g, s.colour(60, 200), 12+s.rng.IntN(12), fmt.Sprint(s.w/2), fmt.Sprintf("%d+4*sin(6*t)", s.h/2))
	}},
	{"on twos", func(s shape) string { // every drawing is shown for two or three frames
		return s.in("testsrc2=s={w}x{h}:r={r},fps={r}/%d,fps={r}", 2+s.rng.IntN(2))
	}},
	{"pan", func(s shape) string {
		return s.in("mandelbrot=s=%dx{h}:r={r}:start_scale=2,trim=end_frame=1,loop=-1:1:0,setpts=N/({r}*TB),crop={w}:{h}:x='%d*t':y=0", 2*s.w,
			3+s.rng.IntN(20))
	}},
	{"flash", func(s shape) string { // lightning: some frames are white
		return s.in("mptestsrc=r={r}:t=%s,scale={w}:{h},drawbox=t=fill:color=white:enable='lt(mod(t\\,1)\\,0.07)'",
			pick(s.rng, "dc_luma", "freq_luma", "amp_luma", "ring1"))
	}},
	{"dusk", func(s shape) string { // it gets dark, but not black
		return s.in("testsrc2=s={w}x{h}:r={r},hue=b='-%.1f*t/{d}'", 3+3*s.rng.Float64())
	}},
	{"rain", func(s shape) string {
		return s.in("%s,lutyuv=y=val*0.4+20,%s", s.scene(), s.grain(20+s.rng.IntN(15)))
	}},
	{"cuts", func(s shape) string { // several shots, with a short black pause
		return s.in("mandelbrot=s={w}x{h}:r={r}:end_pts=400[one];testsrc=s={w}x{h}:r={r}[two];[one][two]overlay=enable='gt(t,%.2f)':shortest=0,drawbox=t=fill:color=black:enable='between(t\\,%.2f\\,%.2f)'", s.seconds/2, s.seconds/2-0.2, s.seconds/2)
	}},
}
