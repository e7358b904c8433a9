package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
)

// orientation returns how an image must be turned to stand upright, as EXIF counts it: 1 is
// upright, 2 to 8 are the other rotations and mirrorings. It is 1 if the file does not say, or
// what it says cannot be read.
func orientation(contentType string, data []byte) int {
	switch contentType {
	case "image/jpeg":
		return ofEXIF(exifOfJPEG(data))
	case "image/png":
		return ofEXIF(exifOfPNG(data))
	case "image/webp":
		return ofEXIF(exifOfWebP(data))
	}
	return 1
}

// exifOfJPEG returns the EXIF data of a JPEG: a segment APP1 before the picture begins.
func exifOfJPEG(data []byte) []byte {
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		marker, size := data[at+1], int(binary.BigEndian.Uint16(data[at+2:]))
		switch {
		case marker == 0xff: // a fill byte
			at++
			continue
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd8: // without a size
			at += 2
			continue
		case marker == 0xda || marker == 0xd9 || size < 2 || at+2+size > len(data):
			return nil
		}
		if exif, found := bytes.CutPrefix(data[at+4:at+2+size], []byte("Exif\x00\x00")); marker == 0xe1 && found {
			return exif
		}
		at += 2 + size
	}
	return nil
}

// exifOfPNG returns the EXIF data of a PNG: its chunk eXIf.
func exifOfPNG(data []byte) []byte {
	for at := 8; at+8 <= len(data); {
		size := int(binary.BigEndian.Uint32(data[at:]))
		if size > len(data)-at-8 {
			return nil
		}
		if string(data[at+4:at+8]) == "eXIf" {
			return data[at+8:][:size]
		}
		at += 12 + size
	}
	return nil
}

// exifOfWebP returns the EXIF data of a WebP: its chunk EXIF.
func exifOfWebP(data []byte) []byte {
	for at := 12; at+8 <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[at+4:]))
		if size > len(data)-at-8 {
			return nil
		}
		if string(data[at:at+4]) == "EXIF" {
			return bytes.TrimPrefix(data[at+8:][:size], []byte("Exif\x00\x00")) // some writers repeat the mark of JPEG
		}
		at += 8 + size + size&1
	}
	return nil
}

// ofEXIF returns the orientation that EXIF data has in its first directory.
func ofEXIF(exif []byte) int {
	if len(exif) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(exif[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	directory := order.Uint32(exif[4:])
	if uint64(directory)+2 > uint64(len(exif)) {
		return 1
	}
	entries := exif[directory+2:]
	for n := order.Uint16(exif[directory:]); n > 0 && len(entries) >= 12; n-- {
		const tag, short = 0x0112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if value := order.Uint16(entries[8:]); value >= 1 && value <= 8 {
				return int(value)
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// upright returns the image turned as its orientation says. It shares the pixels of from.
func upright(from image.Image, orientation int) image.Image {
	if orientation == 1 {
		return from
	}
	return &turned{from, orientation}
}

// turned is an image that is rotated or mirrored when it is read.
type turned struct {
	image.Image
	orientation int
}

// Bounds begin at 0.
func (t *turned) Bounds() image.Rectangle {
	size := t.Image.Bounds().Size()
	if t.orientation >= 5 {
		size.X, size.Y = size.Y, size.X
	}
	return image.Rectangle{Max: size}
}

func (t *turned) At(x, y int) color.Color {
	b := t.Image.Bounds()
	right, bottom := b.Max.X-1, b.Max.Y-1
	switch t.orientation {
	case 2: // mirrored left to right
		return t.Image.At(right-x, b.Min.Y+y)
	case 3: // upside down
		return t.Image.At(right-x, bottom-y)
	case 4: // mirrored top to bottom
		return t.Image.At(b.Min.X+x, bottom-y)
	case 5: // mirrored along the diagonal from the top left
		return t.Image.At(b.Min.X+y, b.Min.Y+x)
	case 6: // to be turned to the right
		return t.Image.At(b.Min.X+y, bottom-x)
	case 7: // mirrored along the other diagonal
		return t.Image.At(right-y, bottom-x)
	case 8: // to be turned to the left
		return t.Image.At(right-y, b.Min.Y+x)
	}
	return t.Image.At(b.Min.X+x, b.Min.Y+y)
}
