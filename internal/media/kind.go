package media

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// Kind is what a file is, as its first bytes say. The zero Kind is unknown.
type Kind struct {
	// Name is what people call the format, such as HEIC.
	Name string
	// Type is its content type if jobs can start from such a file.
	Type string
	// to names the formats to which such files are best converted.
	to string
}

// The formats to which pictures, videos and sounds are converted.
const (
	toPicture = "JPEG, PNG or WebP"
	toVideo   = "MP4 or WebM"
	toSound   = "WAV, FLAC or MP3"
)

// Advice says what a file of an unsupported kind is and what to do, such as "HEIC: convert it to
// JPEG, PNG or WebP". It is empty if jobs can start from the kind, or it is unknown.
func (k Kind) Advice() string {
	switch {
	case k.Name == "" || k.Type != "":
		return ""
	case k.to == "":
		return k.Name
	}
	return k.Name + ": convert it to " + k.to
}

// magics are formats that one text tells at a place of the file.
var magics = []struct {
	at   int
	text string
	kind Kind
}{
	{0, "\xff\xd8\xff", Kind{"JPEG", "image/jpeg", ""}},
	{0, "\x89PNG\r\n\x1a\n", Kind{"PNG", "image/png", ""}},
	{0, "fLaC", Kind{"FLAC", "audio/flac", ""}},
	{0, "OggS", Kind{"Ogg", "audio/ogg", ""}},
	{0, "GIF87a", Kind{"GIF", "", toPicture}},
	{0, "GIF89a", Kind{"GIF", "", toPicture}},
	{0, "II*\x00", Kind{"TIFF or a raw photograph", "", toPicture}},
	{0, "MM\x00*", Kind{"TIFF or a raw photograph", "", toPicture}},
	{0, "II+\x00", Kind{"BigTIFF", "", toPicture}},
	{0, "MM\x00+", Kind{"BigTIFF", "", toPicture}},
	{0, "\x00\x00\x00\x0cJXL \r\n\x87\n", Kind{"JPEG XL", "", toPicture}},
	{0, "\xff\x0a", Kind{"JPEG XL", "", toPicture}},
	{0, "\x00\x00\x00\x0cjP  \r\n\x87\n", Kind{"JPEG 2000", "", toPicture}},
	{0, "\xff\x4f\xff\x51", Kind{"JPEG 2000", "", toPicture}},
	{0, "8BPS", Kind{"a Photoshop file", "", toPicture}},
	{0, "\x00\x00\x01\x00", Kind{"an icon", "", toPicture}},
	{0, "%PDF-", Kind{"PDF", "", toPicture}},
	{0, "FLV\x01", Kind{"FLV", "", toVideo}},
	{0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", Kind{"Windows Media", "", toVideo}},
	{0, "\x00\x00\x01\xba", Kind{"an MPEG program stream", "", toVideo}},
	{0, "\x00\x00\x01\xb3", Kind{"MPEG video without a container", "", toVideo}},
	{0, "\x00\x00\x00\x01\x67", Kind{"H.264 without a container", "", toVideo}},
	{0, ".RMF", Kind{"RealMedia", "", toVideo}},
	{0, "#!AMR", Kind{"AMR", "", toSound}},
	{0, "ADIF", Kind{"AAC without a container", "", toSound}},
	{0, "MThd", Kind{"MIDI", "", toSound}},
	{0, "caff", Kind{"Core Audio", "", toSound}},
	{0, "PK\x03\x04", Kind{Name: "a ZIP archive"}},
	{0, "\x1f\x8b", Kind{Name: "a gzip archive"}},
	{4, "moof", Kind{"a segment of a fragmented MP4, without its beginning", "", toVideo}},
	{4, "styp", Kind{"a segment of a fragmented MP4, without its beginning", "", toVideo}},
	{4, "sidx", Kind{"a segment of a fragmented MP4, without its beginning", "", toVideo}},
}

// Detect returns the kind of a file that begins with head.
func Detect(head []byte) Kind {
	head = head[:min(len(head), HeadBytes)]
	for _, m := range magics {
		if len(head) >= m.at && bytes.HasPrefix(head[m.at:], []byte(m.text)) {
			return m.kind
		}
	}
	for _, detect := range []func([]byte) Kind{boxes, ebml, chunks, mpegAudio, transport, bitmap, markup} {
		if k := detect(head); k.Name != "" {
			return k
		}
	}
	return Kind{}
}

// brands are what the major brand of an ISO base media file says. Others are MP4 videos.
var brands = map[string]Kind{
	"heic": heic, "heix": heic, "heim": heic, "heis": heic, "hevc": heic, "hevx": heic, "hevm": heic, "hevs": heic,
	"avif": avif, "avis": avif,
	"mif1": heif, "mif2": heif, "msf1": heif, "miaf": heif, "MiHE": heif, "MiHB": heif, "1pic": heif, "jpeg": heif, "jpgs": heif, "avci": heif,
	"avcs": heif,
	"crx ": {"a raw photograph (CR3)", "", toPicture},
	"jp2 ": {"JPEG 2000", "", toPicture}, "jpx ": {"JPEG 2000", "", toPicture}, "jxl ": {"JPEG XL", "", toPicture},
	"M4A ": m4a, "M4B ": m4a, "F4A ": m4a, "F4B ": m4a,
	"M4P ": {"M4A with copy protection", "", toSound}, "aax ": {"an Audible book", "", toSound}, "aaxc": {"an Audible book", "", toSound},
	"qt  ": {"QuickTime", "video/mp4", ""},
}

var (
	heic = Kind{"HEIC", "", toPicture}
	heif = Kind{"HEIF", "", toPicture}
	avif = Kind{"AVIF", "", toPicture}
	m4a  = Kind{"M4A", "audio/mp4", ""}
)

// boxes recognizes files that begin with a box: MP4 and its relatives, QuickTime, and the images
// of phones.
func boxes(head []byte) Kind {
	if len(head) < 12 {
		return Kind{}
	}
	switch string(head[4:8]) {
	case "ftyp":
	case "moov", "mdat", "wide", "pnot": // old QuickTime has no ftyp
		return brands["qt  "]
	default:
		return Kind{}
	}
	major := string(head[8:12])
	kind, known := brands[major]
	switch {
	case !known && (strings.HasPrefix(major, "3gp") || strings.HasPrefix(major, "3g2")):
		return Kind{"3GP", "video/mp4", ""}
	case !known:
		return Kind{"MP4", "video/mp4", ""}
	case kind != heif:
		return kind
	}
	size := min(int(binary.BigEndian.Uint32(head)), len(head))
	for at := 16; at+4 <= size; at += 4 { // the brands with which the file is compatible
		if is := brands[string(head[at:at+4])]; is == avif || is == heic {
			return is
		}
	}
	return kind
}

// ebml tells WebM from other Matroska files by the name of the format.
func ebml(head []byte) Kind {
	if !bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")) {
		return Kind{}
	}
	_, rest, found := bytes.Cut(head[:min(len(head), 128)], []byte("\x42\x82")) // DocType
	if found && len(rest) > 0 && rest[0]&0x80 != 0 && bytes.HasPrefix(rest[1:], []byte("webm")) {
		return Kind{"WebM", "video/webm", ""}
	}
	return Kind{"Matroska (MKV)", "", toVideo}
}

// chunks recognizes RIFF and its relatives.
func chunks(head []byte) Kind {
	if len(head) < 12 {
		return Kind{}
	}
	form := string(head[8:12])
	switch string(head[:4]) {
	case "RIFF", "RF64", "BW64":
		switch form {
		case "WAVE":
			return Kind{"WAV", "audio/wav", ""}
		case "WEBP":
			return Kind{"WebP", "image/webp", ""}
		case "AVI ":
			return Kind{"AVI", "", toVideo}
		}
	case "FORM":
		if form == "AIFF" || form == "AIFC" {
			return Kind{"AIFF", "", toSound}
		}
	case "riff":
		return Kind{"Wave64", "", toSound}
	}
	return Kind{}
}

// mpegAudio recognizes the header of a frame, which may follow a tag of ID3: eleven set bits, and
// the layer III or II. AAC has no layer.
func mpegAudio(head []byte) Kind {
	tagged := bytes.HasPrefix(head, []byte("ID3"))
	if tagged && len(head) < 10 {
		return mp3
	}
	if tagged {
		size := 10
		for i, b := range head[6:10] {
			size += int(b&0x7f) << (7 * (3 - i))
		}
		if size+4 > len(head) {
			return mp3 // what follows the tag is out of sight
		}
		head = bytes.TrimLeft(head[size:], "\x00")
	}
	switch {
	case tagged && bytes.HasPrefix(head, []byte("fLaC")):
		return Kind{"FLAC with a tag of ID3", "", toSound}
	case len(head) < 4 || head[0] != 0xff || head[1]&0xe0 != 0xe0:
		if tagged {
			return mp3
		}
		return Kind{}
	case head[1]&0xf6 == 0xf0:
		return Kind{"AAC without a container", "", toSound}
	case head[1]&0x18 == 0x08 || head[1]&0x06 == 0 || head[1]&0x06 == 0x06 || head[2]>>4 == 15 || head[2]>>2&3 == 3:
		return Kind{} // a reserved version, layer, rate or frequency
	}
	return mp3
}

var mp3 = Kind{"MP3", "audio/mpeg", ""}

// transport recognizes the packets of an MPEG transport stream.
func transport(head []byte) Kind {
	for _, packet := range []int{188, 192} {
		first := packet - 188 // a time of four bytes precedes a packet of 192
		if len(head) > 2*packet && head[first] == 0x47 && head[first+packet] == 0x47 {
			return Kind{"an MPEG transport stream", "", toVideo}
		}
	}
	return Kind{}
}

// bitmap recognizes BMP by its reserved bytes and the size of its second header.
func bitmap(head []byte) Kind {
	if len(head) < 18 || string(head[:2]) != "BM" || binary.LittleEndian.Uint32(head[6:]) != 0 {
		return Kind{}
	}
	if size := binary.LittleEndian.Uint32(head[14:]); size < 12 || size > 256 {
		return Kind{}
	}
	return Kind{"BMP", "", toPicture}
}

// markup recognizes SVG and HTML behind a mark of the encoding, comments and declarations.
func markup(head []byte) Kind {
	text := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	if !bytes.HasPrefix(text, []byte("<")) {
		return Kind{}
	}
	svg, html := bytes.Index(text, []byte("<svg")),
		slices.Max([]int{bytes.Index(text, []byte("<html")), bytes.Index(text, []byte("<!doctype html"))})
	switch {
	case svg >= 0 && (html < 0 || svg < html):
		return Kind{"SVG", "", toPicture}
	case html >= 0:
		return Kind{Name: "an HTML page"}
	}
	return Kind{}
}

// announced are content types that are not supported, and the kinds of their files.
var announced = map[string]Kind{
	"image/heic": heic, "image/heic-sequence": heic, "image/heif": heif, "image/heif-sequence": heif, "image/avif": avif,
	"image/gif": {"GIF", "", toPicture}, "image/bmp": {"BMP", "", toPicture}, "image/x-ms-bmp": {"BMP", "", toPicture},
	"image/tiff": {"TIFF", "", toPicture}, "image/jxl": {"JPEG XL", "", toPicture}, "image/jp2": {"JPEG 2000", "", toPicture},
	"image/svg+xml": {"SVG", "", toPicture}, "application/pdf": {"PDF", "", toPicture},
	"video/x-matroska": {"Matroska (MKV)", "", toVideo}, "video/x-msvideo": {"AVI", "", toVideo},
	"video/x-ms-wmv": {"Windows Media", "", toVideo},
	"video/mp2t":     {"an MPEG transport stream", "", toVideo}, "video/mpeg": {"an MPEG program stream", "", toVideo},
	"audio/aac": {"AAC without a container", "", toSound}, "audio/aiff": {"AIFF", "", toSound}, "audio/x-aiff": {"AIFF", "", toSound},
	"audio/amr": {"AMR", "", toSound},
}

// AdviceOn is the Advice on files of a content type.
func AdviceOn(contentType string) string { return announced[contentType].Advice() }
