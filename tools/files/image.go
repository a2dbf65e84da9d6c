package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif" // decoders of view_image
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	"toolgate/policy"
	"toolgate/tools"
)

type imageInput struct {
	Path   string `json:"path" jsonschema:"of the image"`
	Detail string `json:"detail,omitempty" jsonschema:"high (default), or original: larger, for small print"`
}

// ViewImage is view_image.
var ViewImage = tools.New(tools.Def{
	Name:        "view_image",
	Title:       "View an image",
	Description: "Shows a PNG, JPEG, GIF or WebP file. A large one is scaled down.",
	ReadOnly:    true,
	Idempotent:  true,
}, describeImage, viewImage)

func describeImage(in imageInput) (policy.Action, error) {
	if _, ok := imageSizes[in.Detail]; !ok {
		return policy.Action{}, fmt.Errorf("detail %q is unknown; it is high or original", in.Detail)
	}
	return readAction("path", in.Path, "give the path of a picture")
}

// An imageSize is the maximum of an image.
type imageSize struct {
	side    int // width and height in pixels
	patches int // of 32 by 32 pixels, which models count; 0 means any number
	encoded int // bytes as base64
}

// imageSizes are the maximums by the argument detail. By default they suit all clients:
// some refuse a side of more than 2000 pixels, and then the rest of the conversation, and
// some limit a result to 1 MiB. The number of patches is Codex's.
var imageSizes = map[string]imageSize{
	"":         {side: 2000, encoded: 1_000_000},
	"high":     {side: 2000, encoded: 1_000_000},
	"original": {side: 8000, patches: 10_000, encoded: 4_500_000},
}

// longest returns the longest side of an image of w by h pixels that s allows.
func (s imageSize) longest(w, h int) int {
	patches := func(side int) int {
		scale := min(1, float64(side)/float64(max(w, h)))
		return (int(float64(w)*scale) + 31) / 32 * ((int(float64(h)*scale) + 31) / 32)
	}
	side := min(s.side, max(w, h))
	for s.patches > 0 && patches(side) > s.patches {
		side = side * 99 / 100
	}
	return side
}

// imageDetail is the key of an image's _meta by which Codex learns its detail.
const imageDetail = "codex/imageDetail"

const (
	// maxImageFile and maxPixels limit the memory for scaling.
	maxImageFile = 64 << 20
	maxPixels    = 50_000_000
)

func viewImage(ctx context.Context, in imageInput) (*mcp.CallToolResult, error) {
	f, length, err := openRegular(in.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if length > maxImageFile {
		return nil, fmt.Errorf("%s: has %d bytes, more than the %d that can be shown; "+
			"make it smaller with a command first", in.Path, length, maxImageFile)
	}
	data, err := io.ReadAll(io.LimitReader(contextReader{ctx, f}, maxImageFile))
	if err != nil {
		return nil, explain(in.Path, false, err, "")
	}
	mime, err := imageType(in.Path, data)
	if err != nil {
		return nil, err
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, brokenImage(in.Path, mime, err)
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxPixels/config.Height {
		return nil, fmt.Errorf("%s: is %d by %d pixels, more than the %d pixels that can be shown; "+
			"make it smaller with a command first", in.Path, config.Width, config.Height, maxPixels)
	}
	// Refuse a broken image: a client that receives one may refuse the whole
	// conversation.
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, brokenImage(in.Path, mime, err)
	}
	text := fmt.Sprintf("%s: %s, %d by %d pixels, %d bytes",
		tools.OneLine(in.Path), mime, config.Width, config.Height, len(data))
	size := imageSizes[in.Detail]
	side := size.longest(config.Width, config.Height)
	if max(config.Width, config.Height) > side || encodedSize(data) > size.encoded {
		var scaled image.Image
		img = applyOrientation(fit(img, side), orientation(data, format))
		if data, mime, scaled, err = shrink(img, format, side, size.encoded); err != nil {
			return nil, fmt.Errorf("%s: cannot be made small enough to show: %w", in.Path, err)
		}
		text += fmt.Sprintf(", shown as %s of %d by %d pixels", mime, scaled.Bounds().Dx(), scaled.Bounds().Dy())
	}
	res := tools.Text(text)
	picture := &mcp.ImageContent{Data: data, MIMEType: mime}
	if in.Detail != "" {
		picture.Meta = mcp.Meta{imageDetail: in.Detail}
	}
	res.Content = append(res.Content, picture)
	return res, nil
}

func encodedSize(data []byte) int { return base64.StdEncoding.EncodedLen(len(data)) }

// imageType returns the MIME type of an image, detected from its content. It returns
// an error if the type is not supported.
func imageType(path string, data []byte) (string, error) {
	mime := contentType(data[:min(len(data), 512)])
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return mime, nil
	}
	const convert = "convert it to PNG with a command first"
	start := data[:min(len(data), sampleSize)]
	var what string
	switch {
	case len(data) == 0:
		return "", fmt.Errorf("%s: is empty; there is nothing to show", path)
	case bytes.Contains(start, []byte("<svg")):
		return "", fmt.Errorf("%s: is an SVG drawing, which is text and not pixels; use read_file, or %s",
			path, convert)
	case len(start) > 12 && string(start[4:8]) == "ftyp":
		what = "a file of the HEIC, AVIF or MP4 family"
	case bytes.HasPrefix(start, []byte("II*\x00")) || bytes.HasPrefix(start, []byte("MM\x00*")):
		what = "image/tiff"
	case strings.HasPrefix(mime, "image/"):
		what = mime
	case strings.HasPrefix(mime, "text/"):
		return "", fmt.Errorf("%s: is text and no picture; use read_file", path)
	default:
		return "", fmt.Errorf("%s: is no picture but %s; pictures are PNG, JPEG, GIF and WebP", path, mime)
	}
	return "", fmt.Errorf("%s: is %s, which cannot be shown; %s", path, what, convert)
}

func brokenImage(path, mime string, err error) error {
	return fmt.Errorf("%s: is damaged %s or of a kind that cannot be read (%w); "+
		"make a new one, or convert it to PNG", path, mime, err)
}

// shrink returns img scaled down to longest and encoded in at most maxSize bytes of base64.
// An opaque image is encoded as JPEG if PNG is too large.
func shrink(img image.Image, format string, longest, maxSize int) (
	data []byte, mime string, scaled image.Image, err error,
) {
	side := float64(longest)
	for side >= 64 {
		scaled = fit(img, int(side))
		if data, mime, err = encode(scaled, format, maxSize); err != nil {
			return nil, "", nil, err
		}
		if encodedSize(data) <= maxSize {
			return data, mime, scaled, nil
		}
		side = 0.75 * min(side, float64(max(scaled.Bounds().Dx(), scaled.Bounds().Dy())))
	}
	return nil, "", nil, fmt.Errorf("it still has %d bytes", len(data))
}

// fit returns img with no side longer than side pixels.
func fit(img image.Image, side int) image.Image {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	if max(w, h) <= side {
		return img
	}
	scale := float64(side) / float64(max(w, h))
	out := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(w)*scale)), max(1, int(float64(h)*scale))))
	draw.BiLinear.Scale(out, out.Bounds(), img, img.Bounds(), draw.Src, nil)
	return out
}

func encode(img image.Image, format string, maxSize int) (data []byte, mime string, err error) {
	var b bytes.Buffer
	if format != "jpeg" {
		err := png.Encode(&b, img)
		if err != nil || encodedSize(b.Bytes()) <= maxSize || !opaque(img) {
			return b.Bytes(), "image/png", err
		}
		b.Reset()
	}
	err = jpeg.Encode(&b, img, &jpeg.Options{Quality: 85})
	return b.Bytes(), "image/jpeg", err
}

func opaque(img image.Image) bool {
	o, ok := img.(interface{ Opaque() bool })
	return ok && o.Opaque()
}
