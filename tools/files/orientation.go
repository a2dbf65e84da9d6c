package files

import (
	"encoding/binary"
	"image"
	"slices"
)

// orientation returns the Exif orientation of a JPEG, 1 to 8, where 1 is upright.
// Scaling loses it.
func orientation(data []byte, format string) int {
	if format != "jpeg" {
		return 1
	}
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		size := int(binary.BigEndian.Uint16(data[at+2:]))
		if size < 2 || at+2+size > len(data) || data[at+1] == 0xda {
			return 1
		}
		segment := data[at+4 : at+2+size]
		if data[at+1] == 0xe1 && len(segment) > 6 && string(segment[:6]) == "Exif\x00\x00" {
			return exifOrientation(segment[6:])
		}
		at += 2 + size
	}
	return 1
}

func exifOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if tiff[0] == 'M' {
		order = binary.BigEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	const orientationTag, size = 0x0112, 12
	n := int64(order.Uint16(tiff[at:]))
	for i := range n {
		entry := at + 2 + i*size
		if entry+size > int64(len(tiff)) {
			return 1
		}
		if order.Uint16(tiff[entry:]) != orientationTag {
			continue
		}
		if v := int(order.Uint16(tiff[entry+8:])); 1 <= v && v <= 8 {
			return v
		}
		return 1
	}
	return 1
}

func applyOrientation(img image.Image, orientation int) image.Image {
	if orientation == 1 {
		return img
	}
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	flipX := slices.Contains([]int{2, 3, 7, 8}, orientation)
	flipY := slices.Contains([]int{3, 4, 6, 7}, orientation)
	transpose := orientation >= 5
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if transpose {
		out = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			tx, ty := x, y
			if flipX {
				tx = w - 1 - x
			}
			if flipY {
				ty = h - 1 - y
			}
			if transpose {
				tx, ty = ty, tx
			}
			out.Set(tx, ty, img.At(b.Min.X+x, b.Min.Y+y))
		}
	}
	return out
}
