package aggregator_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestOutputTokenLimit(t *testing.T) {
	long := strings.Repeat("a", 500) + "é" + strings.Repeat("z", 500)
	for _, tt := range []struct {
		name   string
		limit  int
		result string
		want   []string // parts of what comes; none: the same bytes
	}{
		{"no limit", 0, text(long), nil},
		{"below it", 1000, text(long), nil},
		{"above it", 50, text(long), []string{strings.Repeat("a", 100) + `\n… 802 bytes cut`, strings.Repeat("z", 100)}},
		{"no text", 50, `{"content":[{"type":"image","data":"` + long + `"}]}`, nil},
		{"fields stay", 50, `{"z":9007199254740993,"content":[{"type":"text","text":"` + long + `","x":1}]}`, []string{`{"z":9007199254740993,"content":[{"type":"text","text":"aaa`, `"x":1}]}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{script: script{"tools/call": func(p *peer, m message) error { p.result(m, tt.result); return nil }}}
				one := spec("raw", f.launch)
				one.Limit = func(string) int { return tt.limit }
				s := set(t, one)
				got, err := call(t.Context(), s, "raw", "echo", `{}`)
				require.NoError(t, err)
				if tt.want == nil {
					require.Equal(t, tt.result, got)
				}
				for _, w := range tt.want {
					require.Contains(t, got, w)
				}
				s.Close()
			})
		})
	}
}

func TestReadResourceThroughTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: script{
			"initialize": func(p *peer, m message) error {
				p.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}}}`)
				return nil
			},
			"resources/list": func(p *peer, m message) error {
				p.result(m, `{"resources":[{"uri":"raw://a","name":"a"}]}`)
				return nil
			},
			"resources/read": func(p *peer, m message) error {
				p.result(m, `{"contents":[{"uri":"raw://a","text":"n 9007199254740993"}]}`)
				return nil
			},
		}}
		s := set(t, spec("raw", f.launch))
		got, err := call(t.Context(), s, "raw", "resources/read", `{"server":"raw","uri":"raw://a"}`)
		require.NoError(t, err)
		require.Equal(t, text(`{"server":"raw","uri":"raw://a","contents":[{"uri":"raw://a","text":"n 9007199254740993"}]}`), got)
		s.Close()
	})
}
