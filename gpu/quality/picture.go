package quality

import "math"

// area describes a frame by its averaged picture.
type area struct {
	mean      [3]float64 // red, green, blue, from 0 to 255
	deviation float64    // the standard deviation in the channel where it is largest
	// peak is how much brighter than the mean the brightest cell is.
	peak float64
	// uneven is the deviation of the blocks, in which noise does not count.
	uneven float64
	// moved is the largest difference of any block from the frame before. since is the
	// index of the first frame from which all up to this one show nearly the same blocks.
	moved float64
	since int
}

// A block is the mean of 4 × 4 cells.
const (
	blockSide   = 4
	blockColumn = gridWidth / blockSide
	blockCount  = cells / blockSide / blockSide
)

type blocks [blockCount][3]float64

func blocksOf(pixels []byte) *blocks {
	var b blocks
	for i := 0; i < len(pixels); i += 3 {
		cell := i / 3
		block := &b[cell/gridWidth/blockSide*blockColumn+cell%gridWidth/blockSide]
		for c := range 3 {
			block[c] += float64(pixels[i+c]) / (blockSide * blockSide)
		}
	}
	return &b
}

// farthest is the largest difference between two frames' blocks.
func (b *blocks) farthest(other *blocks) float64 {
	most := 0.0
	for i := range b {
		for c := range 3 {
			most = max(most, math.Abs(b[i][c]-other[i][c]))
		}
	}
	return most
}

// spread returns the standard deviation in the channel where it is largest, and the
// distance of the farthest block from the mean in that channel.
func (b *blocks) spread() (deviation, reach float64) {
	for c := range 3 {
		sum, squares, least, most := 0.0, 0.0, 255.0, 0.0
		for i := range b {
			v := b[i][c]
			sum, squares, least, most = sum+v, squares+v*v, min(least, v), max(most, v)
		}
		mean := sum / blockCount
		deviation = max(deviation, math.Sqrt(max(0, squares/blockCount-mean*mean)))
		reach = max(reach, most-least)
	}
	return deviation, reach
}

// alike returns the largest difference of a block between two frames that count as the same
// picture. Frames of a still picture differ because an encoder repairs its details over several
// frames. The limit grows with reach, see spread, so that a slow change of a picture with little
// contrast counts as a change.
func alike(reach float64) float64 { return min(4, max(0.9, reach/20)) }

// alikeCell is how far a cell may differ: something small may move within a block.
const alikeCell = 24

// point describes a frame by its sampled picture.
type point struct {
	deviation float64 // of the brightness
	changed   float64 // mean difference from the frame before
	smooth    float64 // correlation of cells with their neighbours, from −1 to 1
}

// addArea returns a function that measures averaged pictures one after another.
func (m *measured) addArea() func([]byte) {
	var before, first *blocks
	firstPixels := make([]byte, 3*cells)
	since := 0
	return func(pixels []byte) {
		a, is := measureArea(pixels), blocksOf(pixels)
		deviation, reach := is.spread()
		a.uneven = deviation
		if before != nil {
			a.moved = is.farthest(before)
		}
		if first == nil || is.farthest(first) > alike(reach) || farthest(pixels, firstPixels) > alikeCell {
			first, since = is, len(m.areas)
			copy(firstPixels, pixels)
		}
		a.since, before = since, is
		m.areas = append(m.areas, a)
	}
}

func (m *measured) addPoint() func([]byte) {
	var before []byte
	return func(pixels []byte) {
		p := measurePoint(pixels)
		if before == nil {
			before = make([]byte, len(pixels))
		} else {
			sum := 0
			for i, v := range pixels {
				sum += distance(v, before[i])
			}
			p.changed = float64(sum) / float64(len(pixels))
		}
		copy(before, pixels)
		m.points = append(m.points, p)
	}
}

func measureArea(pixels []byte) area {
	var a area
	var sums, squares [3]int
	brightest := 0.0
	for i := 0; i < len(pixels); i += 3 {
		for c := range 3 {
			v := int(pixels[i+c])
			sums[c] += v
			squares[c] += v * v
		}
		brightest = max(brightest, brightness(pixels[i:]))
	}
	for c := range 3 {
		a.mean[c] = float64(sums[c]) / cells
		a.deviation = max(a.deviation, math.Sqrt(max(0, float64(squares[c])/cells-a.mean[c]*a.mean[c])))
	}
	a.peak = brightest - a.brightness()
	return a
}

// measurePoint correlates each cell with the cells at its right and below it.
func measurePoint(pixels []byte) point {
	var luma [cells]float64
	mean := 0.0
	for i := range luma {
		luma[i] = brightness(pixels[3*i:])
		mean += luma[i] / cells
	}
	variance, together, pairs := 0.0, 0.0, 0
	for i := range luma {
		luma[i] -= mean
		variance += luma[i] * luma[i] / cells
	}
	for y := range gridHeight - 1 {
		for x := range gridWidth - 1 {
			i := y*gridWidth + x
			together += luma[i] * (luma[i+1] + luma[i+gridWidth])
			pairs += 2
		}
	}
	p := point{deviation: math.Sqrt(variance), smooth: 1}
	if variance > 0 {
		p.smooth = together / float64(pairs) / variance
	}
	return p
}

// brightness is the luma of a pixel by ITU-R BT.709.
func brightness(rgb []byte) float64 {
	return 0.2126*float64(rgb[0]) + 0.7152*float64(rgb[1]) + 0.0722*float64(rgb[2])
}

func (a area) brightness() float64 {
	return 0.2126*a.mean[0] + 0.7152*a.mean[1] + 0.0722*a.mean[2]
}

func farthest(a, b []byte) int {
	most := 0
	for i, v := range a {
		most = max(most, distance(v, b[i]))
	}
	return most
}

func distance(a, b byte) int {
	if a > b {
		return int(a - b)
	}
	return int(b - a)
}

// colourGap is the largest difference of two frames' mean colours in a channel.
func colourGap(a, b area) float64 {
	gap := 0.0
	for c := range 3 {
		gap = max(gap, math.Abs(a.mean[c]-b.mean[c]))
	}
	return gap
}
