package agent

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The values of --checkpoint-compression.
const (
	CompressAuto = "auto" // where it pays
	CompressOff  = "off"
	CompressZstd = "zstd" // always
)

var compressions = []string{CompressAuto, CompressOff, CompressZstd}

const (
	// encodingZstd is what the note of a compressed checkpoint says.
	encodingZstd = "zstd"
	zstdType     = "application/zstd"
	// leastCompressed is the size below which a checkpoint is not worth the trouble.
	leastCompressed = 1 << 20
	// sampleParts parts of sampleSize bytes are compressed to see how well a model's checkpoints
	// compress: of each of the first sampledSaves, and of every sampleEvery-th after them.
	sampleParts, sampleSize   = 4, 1 << 20
	sampledSaves, sampleEvery = 3, 20
	// maxExpansion is how many times as large as its compressed form a checkpoint may be, so that a
	// hostile one cannot fill the disk, and maxWhole how large at most. maxWindow bounds the memory that decompression takes.
	maxExpansion = 1000
	maxWhole     = 64 << 30
	maxWindow    = 32 << 20
)

// packer decides which checkpoints are compressed. It learns how well those of each model compress,
// how fast, and how fast uploads are.
type packer struct {
	mode string

	mu        sync.Mutex
	models    map[string]*compressibility
	bandwidth float64 // of the newest uploads, in bytes per second; 0 is unknown
}

// compressibility is how a model's checkpoints compress.
type compressibility struct {
	saves int
	ratio float64 // compressed size / size
	speed float64 // bytes per second of the uncompressed
}

// pays reports whether compression saves more time in the upload than it takes.
func pays(size int64, c compressibility, bandwidth float64) bool {
	saved := float64(size) * (1 - c.ratio)
	return saved/bandwidth > float64(size)/c.speed
}

// wants reports whether a checkpoint of a model should be compressed, and measures a sample if
// necessary. Until an upload was measured, none is compressed.
func (p *packer) wants(model, path string) (bool, error) {
	if p.mode == CompressZstd || p.mode == CompressOff {
		return p.mode == CompressZstd, nil
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() < leastCompressed {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.models == nil {
		p.models = map[string]*compressibility{}
	}
	c := p.models[model]
	if c == nil {
		c = &compressibility{}
		p.models[model] = c
	}
	if c.saves < sampledSaves || c.saves%sampleEvery == 0 {
		if c.ratio, c.speed, err = measure(path, info.Size()); err != nil {
			return false, err
		}
	}
	c.saves++
	return p.bandwidth > 0 && pays(info.Size(), *c, p.bandwidth), nil
}

// uploaded learns from an upload.
func (p *packer) uploaded(bytes int64, took time.Duration) {
	if bytes < leastCompressed || took <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := float64(bytes) / took.Seconds()
	if p.bandwidth == 0 {
		p.bandwidth = now
	}
	p.bandwidth += (now - p.bandwidth) / 4
}

// measure compresses parts of a file, spread over it.
func measure(path string, size int64) (ratio, speed float64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	parts, step := int64(sampleParts), (size-sampleSize)/(sampleParts-1)
	if step < sampleSize { // parts that overlap would compress too well
		parts, step = max(size/sampleSize, 1), sampleSize
	}
	var sample []byte
	for i := range parts {
		part := make([]byte, sampleSize)
		n, err := file.ReadAt(part, i*step)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		sample = append(sample, part[:n]...)
	}
	if len(sample) == 0 {
		return 1, math.Inf(1), nil
	}
	encoder, err := zstd.NewWriter(nil, encoderOptions...)
	if err != nil {
		return 0, 0, err
	}
	defer encoder.Close()
	began := time.Now()
	packed := encoder.EncodeAll(sample, nil)
	return float64(len(packed)) / float64(len(sample)), float64(len(sample)) / time.Since(began).Seconds(), nil
}

// encoderOptions compress with one processor, since the render needs the others.
var encoderOptions = []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)}

// compress writes the compressed form of a file beside it, and returns its path and the size of
// the file. The path is "" if the form is so small that a worker would refuse it.
func compress(path string) (packed string, size int64, err error) {
	from, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer from.Close()
	packed = path + ".zst"
	to, err := os.OpenFile(packed, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return "", 0, err
	}
	defer to.Close()
	encoder, err := zstd.NewWriter(to, encoderOptions...)
	if err == nil {
		size, err = io.Copy(encoder, from)
		err = errors.Join(err, encoder.Close())
	}
	info, statErr := to.Stat()
	if err = errors.Join(err, statErr); err != nil {
		os.Remove(packed)
		return "", 0, fmt.Errorf("compress a checkpoint: %w", err)
	}
	if size > maxSize(info.Size()) {
		os.Remove(packed)
		return "", size, nil
	}
	return packed, size, nil
}

// maxSize is how large a checkpoint may be whose compressed form has packed bytes.
func maxSize(packed int64) int64 {
	return min(maxExpansion*packed+leastCompressed, maxWhole)
}

// decompress replaces a file by what it is the compressed form of. size is how large that must be. The
// error of a file that is no such form wraps errBadPack.
func decompress(path string, size int64) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if size < 0 || size > maxSize(info.Size()) {
		return fmt.Errorf("%w: %d bytes are said to decompress to %d", errBadPack, info.Size(), size)
	}
	decoder, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer decoder.Close()
	whole := path + ".whole"
	to, err := os.OpenFile(whole, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			os.Remove(whole)
			return
		}
		err = os.Rename(whole, path)
	}()
	n, err := io.Copy(to, readErrors{io.LimitReader(decoder, size+1)})
	if err == nil && n != size {
		err = fmt.Errorf("%w: at least %d bytes were decompressed, not the declared %d", errBadPack, n, size)
	}
	return err
}

// errBadPack means that a compressed checkpoint is damaged, or not what its note says.
var errBadPack = errors.New("the compressed checkpoint is bad")

// readErrors marks the errors of the decoder, as opposed to those of the disk that is written to.
type readErrors struct{ io.Reader }

// Read implements io.Reader.
func (r readErrors) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errBadPack, err)
	}
	return n, err
}
