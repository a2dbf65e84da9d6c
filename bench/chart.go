package main

import (
	"bytes"
	"image/color"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// picture draws all comparisons: bars of the medians in milliseconds, each
// comparison with a scale of its own, toolgate's bars in colour.
func picture(r Report, file string) error {
	const columns, width, height = 2, 18 * vg.Centimeter, 5.2 * vg.Centimeter
	rows := (len(r.Comparisons) + columns - 1) / columns
	img := vgimg.New(columns*width, vg.Length(rows)*height)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter, PadTop: 2 * vg.Millimeter, PadBottom: 2 * vg.Millimeter, PadLeft: 2 * vg.Millimeter, PadRight: 6 * vg.Millimeter}
	canvas := draw.New(img)
	for i, c := range r.Comparisons {
		p, err := panel(c)
		if err != nil {
			return err
		}
		p.Draw(tiles.At(canvas, i%columns, i/columns))
	}
	var out bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(&out); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// panel is the picture of one comparison.
func panel(c Result) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = c.Name + ", ms"
	p.Title.TextStyle.Font.Size = font.Points(11)
	p.X.Min = 0
	rows := slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool { return r.Absent != "" })
	slices.Reverse(rows) // the first one at the top
	var names []string
	for i, row := range rows {
		names = append(names, strings.ReplaceAll(row.Name, "`", ""))
		bar, err := plotter.NewBarChart(plotter.Values{row.Median}, vg.Points(11))
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, float64(i), 0
		bar.Color = color.Gray{Y: 170}
		if strings.HasPrefix(row.Name, "toolgate") {
			bar.Color = color.RGBA{R: 20, G: 110, B: 160, A: 255}
		}
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: row.Median, Y: float64(i)}}, Labels: []string{" " + figure(row.Median)}})
		if err != nil {
			return nil, err
		}
		label.TextStyle[0].YAlign = draw.YCenter
		p.Add(bar, label)
		p.X.Max = max(p.X.Max, row.Median*1.15)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	return p, nil
}
