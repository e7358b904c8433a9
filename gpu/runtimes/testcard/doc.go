// Package testcard is a runtime that needs no GPU: it draws a moving test card
// out of the prompt and the seed, as an H.264 MP4. Behind it is real work, shaped
// like that of a diffusion model: [latents] start as noise and are denoised step
// by step, each step from the one before; then they are decoded to frames and
// encoded by ffmpeg.
//
// What survives a crash: the newest checkpoint. It holds the whole state (latents,
// step, random generator), all of it in integers, so a resumed job goes on bit for
// bit as the undisturbed one would, also on another kind of processor. Encoding is
// not checkpointed: it is short, and is done again from the last step.
package testcard
