package drill

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
)

// The ways in which a job can be asked to misbehave.
const (
	crash       = "crash"
	hang        = "hang"
	outOfMemory = "oom"
)

// params are a job's parameters; jobs/catalogue/models.yaml explains them.
type params struct {
	Steps           int    `json:"steps"`
	StepMillis      int    `json:"stepMillis"`
	CheckpointEvery int    `json:"checkpointEvery"`
	Seed            int64  `json:"seed"`
	Misbehave       string `json:"misbehave"`
	MisbehaveAt     int    `json:"misbehaveAt"`
}

func parseParams(raw json.RawMessage) (params, error) {
	p := params{Steps: 10, StepMillis: 100, Misbehave: "none"}
	if len(raw) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&p); err != nil {
			return p, fmt.Errorf("the params cannot be read: %w", err)
		}
	}
	switch {
	case p.Steps < 1 || p.Steps > 100_000:
		return p, fmt.Errorf("steps is %d; it must be from 1 to 100000", p.Steps)
	case p.StepMillis < 0 || p.StepMillis > 60_000:
		return p, fmt.Errorf("stepMillis is %d; it must be from 0 to 60000", p.StepMillis)
	case p.CheckpointEvery < 0 || p.MisbehaveAt < 0:
		return p, errors.New("checkpointEvery and misbehaveAt must be 0 or more")
	}
	return p, nil
}

// state is the whole state of a render after some steps: the last link of the chain.
type state struct {
	step int
	link [sha256.Size]byte
}

// draw writes a picture whose colours are the state.
func (s state) draw(path string) error {
	const side = 64
	picture := image.NewRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		link := s.link[i%side/8*4:]
		picture.Set(i%side, i/side, color.RGBA{link[0], link[1], link[2], 255})
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := png.Encode(file, picture); err != nil {
		return err
	}
	return file.Close()
}

func begin(prompt string, p params) state {
	return state{link: sha256.Sum256(fmt.Appendf(nil, "drill 1 %d %d %s", p.Steps, p.Seed, prompt))}
}

func (s state) next() state {
	link := binary.BigEndian.AppendUint64(s.link[:], uint64(s.step))
	return state{step: s.step + 1, link: sha256.Sum256(link)}
}

// videoBytes is the size of a video's content, large enough for a transfer to be cut
// off in the middle.
const videoBytes = 16 << 10

// video returns an MP4 file with valid boxes but no playable content.
func (s state) video() []byte {
	ftyp := []byte("\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp41")
	mdat := binary.BigEndian.AppendUint32(nil, 8+videoBytes)
	return append(append(append(ftyp, mdat...), "mdat"...), s.noise(videoBytes)...)
}

// noise returns bytes that are unique to this state.
func (s state) noise(size int) []byte {
	noise := make([]byte, size)
	_, _ = rand.NewChaCha8(s.link).Read(noise) // never fails
	return noise
}

// Video returns the file that a job with these parameters must deliver, however
// often it was interrupted.
func Video(prompt string, seed int64, steps int) []byte {
	s := begin(prompt, params{Steps: steps, Seed: seed})
	for s.step < steps {
		s = s.next()
	}
	return s.video()
}

// A checkpoint file consists of the magic, the state before the first step (which
// ties it to its job), the step, the link, padding, and the SHA-256 of all these.
const (
	checkpointMagic   = "RLDRILL1"
	checkpointBallast = 32 << 10
	checkpointSize    = len(checkpointMagic) + sha256.Size + 8 + sha256.Size + checkpointBallast + sha256.Size
)

func (s state) checkpoint(first state) []byte {
	file := append(make([]byte, 0, checkpointSize), checkpointMagic...)
	file = append(file, first.link[:]...)
	file = binary.BigEndian.AppendUint64(file, uint64(s.step))
	file = append(file, s.link[:]...)
	file = append(file, s.noise(checkpointBallast)...)
	sum := sha256.Sum256(file)
	return append(file, sum[:]...)
}

// readCheckpoint restores the state of a job whose first state is first. If it
// cannot, the error says why.
func readCheckpoint(path string, first state, steps int) (state, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return state{}, err
	}
	if len(file) != checkpointSize || !bytes.HasPrefix(file, []byte(checkpointMagic)) {
		return state{}, errors.New("it is not a drill checkpoint, or it is incomplete")
	}
	body := file[:len(file)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], file[len(body):]) {
		return state{}, errors.New("its checksum is wrong")
	}
	body = body[len(checkpointMagic):]
	if !bytes.Equal(body[:sha256.Size], first.link[:]) {
		return state{}, errors.New("it belongs to another video: the prompt or the params differ")
	}
	body = body[sha256.Size:]
	s := state{step: int(binary.BigEndian.Uint64(body)), link: [sha256.Size]byte(body[8 : 8+sha256.Size])}
	if s.step < 1 || s.step > steps {
		return state{}, fmt.Errorf("it is at step %d of %d", s.step, steps)
	}
	return s, nil
}
