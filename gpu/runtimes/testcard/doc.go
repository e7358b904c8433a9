// Package testcard is a runtime that needs no GPU: it draws a moving test card
// from the prompt and the seed, as an H.264 MP4. It does real work in the manner
// of a diffusion model: [latents] start as noise and are denoised step by step,
// each step from the previous one. Then they are decoded to frames, which ffmpeg
// encodes.
//
// The newest checkpoint survives a crash. It holds the whole state (latents, step,
// random generator) in integers, so a resumed job produces the same bits as an
// uninterrupted one, even on another kind of processor. Encoding is not
// checkpointed: it is short, and is repeated from the last step.
package testcard
