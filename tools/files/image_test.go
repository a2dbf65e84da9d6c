package files_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// picture returns a picture of noise, which no encoding makes small, or of one
// colour.
func picture(w, h int, noise, transparent bool) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 1))
	for i := range img.Pix {
		img.Pix[i] = 0x80
		if noise {
			img.Pix[i] = byte(r.Uint32())
		}
		if i%4 == 3 && !transparent {
			img.Pix[i] = 0xff
		}
	}
	return img
}

func encodePNG(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	return b.Bytes()
}

func encodeJPEG(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, jpeg.Encode(&b, img, nil))
	return b.Bytes()
}

func encodeGIF(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, gif.Encode(&b, img, nil))
	return b.Bytes()
}

// webp is a picture of one pixel: x/image reads WebP but does not write it.
const webp = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

func TestViewImage(t *testing.T) {
	t.Chdir(t.TempDir())
	smallWebP, err := base64.StdEncoding.DecodeString(webp)
	require.NoError(t, err)
	for _, test := range []struct {
		name, text, mime string
		data             []byte
		same             bool
	}{
		{"png", "f: image/png, 30 by 20 pixels, %d bytes", "image/png", encodePNG(t, picture(30, 20, true, true)), true},
		{"jpeg", "f: image/jpeg, 30 by 20 pixels, %d bytes", "image/jpeg", encodeJPEG(t, picture(30, 20, true, false)), true},
		{"gif", "f: image/gif, 30 by 20 pixels, %d bytes", "image/gif", encodeGIF(t, picture(30, 20, true, false)), true},
		{"webp", "f: image/webp, 1 by 1 pixels, %d bytes", "image/webp", smallWebP, true},
		{"wide", "f: image/png, 2400 by 600 pixels, %d bytes, shown as image/png of 2000 by 500 pixels", "image/png", encodePNG(t, picture(2400, 600, false, false)), false},
		{"one line", "f: image/png, 1 by 4000 pixels, %d bytes, shown as image/png of 1 by 2000 pixels", "image/png", encodePNG(t, picture(1, 4000, false, false)), false},
		{"heavy opaque png", "f: image/png, 700 by 700 pixels, %d bytes, shown as image/jpeg of 700 by 700 pixels", "image/jpeg", encodePNG(t, picture(700, 700, true, false)), false},
		{"heavy transparent png", "f: image/png, 700 by 700 pixels, %d bytes, shown as image/png of 393 by 393 pixels", "image/png", encodePNG(t, picture(700, 700, true, true)), false},
		{"wide jpeg", "f: image/jpeg, 2500 by 100 pixels, %d bytes, shown as image/jpeg of 2000 by 80 pixels", "image/jpeg", encodeJPEG(t, picture(2500, 100, false, false)), false},
	} {
		require.NoError(t, os.WriteFile("f", test.data, 0o644))
		res := call(t, "view_image", `{"path":"f"}`)
		require.False(t, res.IsError, "%s: %s", test.name, text(res))
		require.Equal(t, fmt.Sprintf(test.text, len(test.data)), text(res), test.name)
		require.Len(t, res.Content, 2)
		img := res.Content[1].(*mcp.ImageContent)
		require.Equal(t, test.mime, img.MIMEType)
		require.LessOrEqual(t, base64.StdEncoding.EncodedLen(len(img.Data)), 1_000_000)
		if test.same {
			require.Equal(t, test.data, img.Data)
			continue
		}
		config, format, err := image.DecodeConfig(bytes.NewReader(img.Data))
		require.NoError(t, err)
		require.Equal(t, test.mime, "image/"+format)
		require.True(t, strings.HasSuffix(text(res), fmt.Sprintf("of %d by %d pixels", config.Width, config.Height)))
	}
}

// TestImageDetail: original is scaled down less than high, and Codex is told.
func TestImageDetail(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		detail, shown string // "" for the file as it is
		data          []byte
	}{
		{"high", ", shown as image/png of 2000 by 500 pixels", encodePNG(t, picture(2400, 600, false, false))},
		{"original", "", encodePNG(t, picture(2400, 600, false, false))},
		{"original", ", shown as image/png of 3650 by 2737 pixels", encodePNG(t, image.NewGray(image.Rect(0, 0, 4000, 3000)))},
		{"original", ", shown as image/png of 8000 by 8 pixels", encodePNG(t, image.NewGray(image.Rect(0, 0, 9000, 9)))},
		{"original", "", encodePNG(t, picture(700, 700, true, false))},
		{"original", ", shown as image/jpeg of 1300 by 1000 pixels", encodePNG(t, picture(1300, 1000, true, false))},
	} {
		require.NoError(t, os.WriteFile("f", test.data, 0o644))
		res := call(t, "view_image", fmt.Sprintf(`{"path":"f","detail":%q}`, test.detail))
		_, shown, _ := strings.Cut(text(res), " bytes")
		require.Equal(t, test.shown, shown)
		img := res.Content[1].(*mcp.ImageContent)
		require.Equal(t, test.detail, img.Meta["codex/imageDetail"])
		require.LessOrEqual(t, base64.StdEncoding.EncodedLen(len(img.Data)), 4_500_000)
	}
	require.Equal(t, `view_image: detail "low" is unknown; it is high or original`,
		text(call(t, "view_image", `{"path":"f","detail":"low"}`)))
}

// A rotated photo is upright after scaling.
// read_file shows an image as view_image does, alone and between texts.
func TestReadImage(t *testing.T) {
	t.Chdir(t.TempDir())
	data := encodePNG(t, picture(3, 2, true, true))
	require.NoError(t, os.WriteFile("i", data, 0o644))
	require.NoError(t, os.WriteFile("f", []byte("text"), 0o644))
	shown := call(t, "view_image", `{"path":"i"}`)
	require.Equal(t, shown, call(t, "read_file", `{"file_path":"i"}`))
	res := call(t, "read_file", `{"file_path":"f","more":[{"file_path":"i"},{}]}`)
	require.Equal(t, []mcp.Content{
		&mcp.TextContent{Text: "==> f <==\nL1: text\n==> i <==\n" + text(shown) + "\n"},
		&mcp.ImageContent{Data: data, MIMEType: "image/png"},
		&mcp.TextContent{Text: "==> f <==\nL1: text"},
	}, res.Content)
	require.False(t, res.IsError)
	require.True(t, call(t, "read_file", `{"file_path":"x","more":[{"file_path":"y"}]}`).IsError)
	a, err := catalog["read_file"].Describe(json.RawMessage(`{"file_path":"x","more":[{"file_path":"/y"},{},{"file_path":"x"}]}`))
	require.NoError(t, err)
	require.Equal(t, []string{"x", "/y"}, a.Reads)
	many := strings.Repeat(`{},`, 20)
	require.Contains(t, text(call(t, "read_file", `{"file_path":"x","more":[`+many[:len(many)-1]+`]}`)), "more has 20 parts; read up to 19 in a call")
}

func TestOrientation(t *testing.T) {
	t.Chdir(t.TempDir())
	img := picture(2200, 1100, false, false)
	for y := range 1100 { // a red left half
		for x := range 1100 {
			img.Set(x, y, color.RGBA{R: 0xff, A: 0xff})
		}
	}
	plain := encodeJPEG(t, img)
	for _, test := range []struct {
		orientation uint16
		w, h        int
		redX, redY  int // a place that is red
	}{
		{1, 2000, 1000, 100, 500},
		{3, 2000, 1000, 1900, 500},
		{6, 1000, 2000, 500, 100},
		{8, 1000, 2000, 500, 1900},
		{2, 2000, 1000, 1900, 500},
		{5, 1000, 2000, 500, 100},
		{7, 1000, 2000, 500, 1900},
		{4, 2000, 1000, 100, 500},
	} {
		order := []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}[test.orientation%2]
		require.NoError(t, os.WriteFile("f", withOrientation(plain, test.orientation, order), 0o644))
		res := call(t, "view_image", `{"path":"f"}`)
		require.False(t, res.IsError, text(res))
		got, _, err := image.Decode(bytes.NewReader(res.Content[1].(*mcp.ImageContent).Data))
		require.NoError(t, err)
		require.Equal(t, image.Pt(test.w, test.h), got.Bounds().Size(), "%d", test.orientation)
		r, g, _, _ := got.At(test.redX, test.redY).RGBA()
		require.True(t, r > 0xe000 && g < 0x2000, "%d", test.orientation)
	}
}

// withOrientation puts an Exif segment into a JPEG.
func withOrientation(data []byte, orientation uint16, order binary.AppendByteOrder) []byte {
	exif := []byte("Exif\x00\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		exif = append(exif, "MM\x00*"...)
	} else {
		exif = append(exif, "II*\x00"...)
	}
	exif = order.AppendUint32(exif, 8)
	exif = order.AppendUint16(exif, 1)
	exif = order.AppendUint16(exif, 0x0112)
	exif = order.AppendUint16(exif, 3)
	exif = order.AppendUint32(exif, 1)
	exif = order.AppendUint16(exif, orientation)
	exif = append(exif, 0, 0, 0, 0, 0, 0)
	out := append([]byte{}, data[:2]...)
	out = append(out, 0xff, 0xe1)
	out = binary.BigEndian.AppendUint16(out, uint16(len(exif)+2))
	return append(append(out, exif...), data[2:]...)
}

func TestNoImage(t *testing.T) {
	t.Chdir(t.TempDir())
	whole := encodePNG(t, picture(30, 20, true, false))
	huge := bytes.Clone(whole)
	binary.BigEndian.PutUint32(huge[16:], 60_000)
	binary.BigEndian.PutUint32(huge[20:], 60_000)
	for _, test := range []struct{ name, data, want string }{
		{"svg", "<?xml version='1.0'?><svg xmlns='x'/>", "view_image: f: is an SVG drawing, which is text and not pixels; use read_file, or convert it to PNG with a command first"},
		{"text", "hello", "view_image: f: is text and no picture; use read_file"},
		{"empty", "", "view_image: f: is empty; there is nothing to show"},
		{"bmp", "BM\x00\x00\x01\x00", "view_image: f: is image/bmp, which cannot be shown; convert it to PNG with a command first"},
		{"tiff", "II*\x00\x08\x00\x00\x00", "view_image: f: is image/tiff, which cannot be shown; convert it to PNG with a command first"},
		{"heic", "\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "view_image: f: is a file of the HEIC, AVIF or MP4 family, which cannot be shown; convert it to PNG with a command first"},
		{"pdf", "%PDF-1.7", "view_image: f: is no picture but application/pdf; pictures are PNG, JPEG, GIF and WebP"},
		{"cut off", string(whole[:len(whole)/2]), "view_image: f: is damaged image/png or of a kind that cannot be read (png: invalid format: not enough pixel data); make a new one, or convert it to PNG"},
	} {
		require.NoError(t, os.WriteFile("f", []byte(test.data), 0o644))
		res := call(t, "view_image", `{"path":"f"}`)
		require.True(t, res.IsError, test.name)
		require.Equal(t, test.want, text(res), test.name)
	}
	require.NoError(t, os.WriteFile("f", huge, 0o644))
	require.True(t, call(t, "view_image", `{"path":"f"}`).IsError) // and takes no memory for it

	for _, test := range []struct{ args, want string }{
		{`{"path":"none.png"}`, "view_image: none.png: does not exist; check the path with list_dir"},
		{`{"path":"."}`, "view_image: .: is a folder; use list_dir"},
		{`{"path":""}`, "view_image: path is empty; give the path of a picture"},
	} {
		require.Equal(t, test.want, text(call(t, "view_image", test.args)))
	}
}
