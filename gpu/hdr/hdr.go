// Package hdr converts HDR video to SDR with ffmpeg. Most screens and all of Reelay's own videos
// are SDR, in which HDR looks grey.
package hdr

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Kind returns what people call the HDR of a transfer function as ffprobe names it, or "" for SDR.
func Kind(transfer string) string {
	switch transfer {
	case "smpte2084":
		return "PQ"
	case "arib-std-b67":
		return "HLG"
	}
	return ""
}

// peak is the luminance in cd/m² that becomes white: that of diffuse white in HDR (BT.2408).
const peak = 203

// Filters returns the filters of ffmpeg that convert a video to BT.709 in 8 bits. The brightest
// lights are compressed rather than cut. An unknown part of the description is that of BT.2020.
func Filters(transfer, primaries, matrix string) string {
	// zscale finds no way from what it does not know, and ffmpeg may then wait for ever: so the
	// frames are described first.
	return fmt.Sprintf("format=yuv444p10le,setparams=range=tv:color_trc=%s:color_primaries=%s:colorspace=%s,zscale=t=linear:npl=%d,"+
		"format=gbrpf32le,zscale=p=bt709,tonemap=mobius:desat=0,zscale=t=bt709:m=bt709:r=tv,format=yuv444p",
		transfer, known(primaries, "bt2020", "bt709", "bt2020"), known(matrix, "bt2020nc", "bt709", "bt2020nc", "bt2020c"), peak)
}

// known returns value if it is one of these, or else the first.
func known(value, otherwise string, names ...string) string {
	for _, name := range names {
		if value == name {
			return value
		}
	}
	return otherwise
}

// Missing returns the name of a filter that the conversion needs and this machine's ffmpeg lacks,
// or "". It returns an error if ffmpeg cannot be asked.
func Missing(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "ffmpeg", "-hide_banner", "-filters").Output()
	if err != nil {
		return "", fmt.Errorf("ask ffmpeg for its filters: %w", err)
	}
	for _, name := range []string{"zscale", "tonemap"} {
		if !strings.Contains(string(out), " "+name+" ") {
			return name, nil
		}
	}
	return "", nil
}
