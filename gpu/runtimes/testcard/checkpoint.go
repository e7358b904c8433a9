package testcard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A checkpoint file consists of the header, the cells, and the SHA-256 of both.
// All numbers are little-endian.
type header struct {
	Magic       [8]byte
	Version     uint32
	Fingerprint [sha256.Size]byte
	Step        uint32
	Random      [20]byte // a marshalled rand.PCG
	Cells       uint32
}

const checkpointVersion = 1

var checkpointMagic = [8]byte([]byte("RLTCARD\n"))

// encodeCheckpoint returns an error for a state that no step can produce, since
// such a file would only spoil the next attempts.
func encodeCheckpoint(f video, l *latents) ([]byte, error) {
	if err := checkCells(l.cells); err != nil {
		return nil, err
	}
	random, err := l.random.MarshalBinary()
	if err != nil {
		return nil, err
	}
	h := header{
		Magic: checkpointMagic, Version: checkpointVersion, Fingerprint: f.fingerprint(),
		Step: uint32(l.step), Random: [20]byte(random), Cells: uint32(len(l.cells)),
	}
	file := make([]byte, 0, checkpointSize(l))
	if file, err = binary.Append(file, binary.LittleEndian, h); err != nil {
		return nil, err
	}
	if file, err = binary.Append(file, binary.LittleEndian, l.cells); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(file)
	return append(file, sum[:]...), nil
}

func checkpointSize(l *latents) int { return binary.Size(header{}) + 4*len(l.cells) + sha256.Size }

func checkCells(cells []int32) error {
	for _, cell := range cells {
		if cell < -limit || cell > limit {
			return fmt.Errorf("a latent is %d, which no step can produce", cell)
		}
	}
	return nil
}

// writeCheckpoint writes a complete file at path or none.
func writeCheckpoint(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".checkpoint-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())

	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// readCheckpoint restores the state of f from a file. If it cannot, the error says
// why.
func readCheckpoint(path string, f video) (*latents, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	l := newLatents(f)
	size := checkpointSize(l)
	content, err := io.ReadAll(io.LimitReader(file, int64(size)+1))
	if err != nil {
		return nil, err
	}
	return l, l.decode(f, content, size)
}

func (l *latents) decode(f video, content []byte, size int) error {
	if !bytes.HasPrefix(content, checkpointMagic[:]) {
		return errors.New("it is not a testcard checkpoint")
	}
	var h header
	n, err := binary.Decode(content, binary.LittleEndian, &h)
	if err != nil {
		return errors.New("it is cut short")
	}
	if h.Version != checkpointVersion {
		return fmt.Errorf("it has version %d; this runtime reads %d", h.Version, checkpointVersion)
	}
	if h.Fingerprint != f.fingerprint() {
		return errors.New("it belongs to another video: the prompt or the params differ")
	}
	if len(content) != size || int(h.Cells) != len(l.cells) {
		return errors.New("its size is wrong")
	}
	body := content[:size-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], content[len(body):]) {
		return errors.New("its checksum is wrong")
	}
	if _, err := binary.Decode(body[n:], binary.LittleEndian, l.cells); err != nil {
		return err
	}
	if int(h.Step) > l.steps {
		return fmt.Errorf("it is at step %d of %d", h.Step, l.steps)
	}
	l.step, l.random = int(h.Step), &rand.PCG{}
	return errors.Join(l.random.UnmarshalBinary(h.Random[:]), checkCells(l.cells))
}
