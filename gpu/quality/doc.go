// Package quality decides whether a rendered video is fit for delivery. It looks for
// the faults of a broken render: a file that does not decode, the wrong size, rate or
// length, and pictures or sound that stop making sense. It does not judge taste.
//
// [Check] runs ffprobe once for the container and ffmpeg once for the content. ffmpeg
// decodes the video in one pass into four pipes, which this package measures as they
// arrive: a checksum of every full frame, two small pictures of it, and the sound.
// Nothing is kept but a few numbers for each frame.
//
// Of the two small pictures of 64 × 36 pixels, one is averaged (area) and one is
// sampled (point). The area picture shows structure without noise: whether a frame is
// flat, how bright it is, and whether anything moved. The point picture keeps the
// noise of single pixels, so that a static scene with grain differs from a frozen one.
//
// [EndFrame] takes the first or last picture out of a video, from which another one can begin.
//
// # Tolerances
//
// A length may differ from the requested one by 0.25 s, 5 %, one frame, or one group of
// 4 frames (at most a fifth of the length), whichever is largest: video models render
// whole groups. A frame rate may differ by 1 %; the average counts, so that a variable
// rate is allowed. Width and height must match exactly, a resolution such as 720p within
// 16 pixels. Sound must begin and end with the pictures, within 0.25 s or 1 %.
package quality
