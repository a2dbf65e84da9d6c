package stdio_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"toolgate/internal/stdio"
)

func TestReaderTellsBadLinesAndGoesOn(t *testing.T) {
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	long := strings.Repeat("x", 3000)
	for _, tt := range []struct {
		name, line, wantMsg, wantID string
	}{
		{"not JSON", `{"jsonrpc":"2.0","id":7,"method":`, "not valid JSON", "7"},
		{"words", `hello`, "not valid JSON", ""},
		{"not an object", `"x"`, "not a JSON object", ""},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "batches are not supported", ""},
		{"invalid UTF-8", "{\"id\":\"a\",\"x\":\"\xff\"}", "not valid UTF-8", `"a"`},
		{"deep", `{"id":3,"x":` + deep + `}`, "nested more than 512 deep", "3"},
		{"long, id first", `{"id":1,"x":"` + long + `"}`, "longer than 2000 bytes", "1"},
		{"long, id last", `{"x":"` + long + `","id":"q-2"}`, "longer than 2000 bytes", `"q-2"`},
		{"long, an id that is none of its own", `{"x":{"id":5,"y":"` + long + `"}}`, "longer than 2000 bytes", ""},
		{"long, an id inside a string", `{"x":"\"id\":5,` + long + `"}`, "longer than 2000 bytes", ""},
		{"long, id of a wrong type", `{"id":{"a":1},"y":"` + long + `"}`, "longer than 2000 bytes", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.line + "\n\r\n" + `{"id":99}` + "\n"
			for _, stream := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
				r := stdio.NewReader(stream, stdio.Limits{Line: 2000})
				_, err := r.Next()
				bad, ok := errors.AsType[*stdio.LineError](err)
				require.True(t, ok, "error is %v", err)
				require.Contains(t, bad.Msg, tt.wantMsg)
				require.Equal(t, tt.wantID, string(bad.ID))
				line, err := r.Next()
				require.NoError(t, err)
				require.Equal(t, `{"id":99}`, string(line))
				_, err = r.Next()
				require.ErrorIs(t, err, io.EOF)
			}
		})
	}
}

func TestReaderReturnsALastLineWithoutItsEnd(t *testing.T) {
	r := stdio.NewReader(strings.NewReader(`{"id":1}`), stdio.Limits{})
	line, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, `{"id":1}`, string(line))
	_, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{`{"id":1}`, "{\"id\":\"\xff\"}", `[[[[`, `{"a":{"id":1},"id":"x"`, "\n\n{}\n", `{"id" : -1.5e3 , "x":"` + strings.Repeat("y", 100) + `"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r := stdio.NewReader(strings.NewReader(in), stdio.Limits{Line: 64, Depth: 8})
		for range strings.Count(in, "\n") + 2 {
			line, err := r.Next()
			bad, ok := errors.AsType[*stdio.LineError](err)
			switch {
			case ok:
				require.NotEmpty(t, bad.Msg)
				require.LessOrEqual(t, len(bad.ID), 256)
			case err != nil:
				require.ErrorIs(t, err, io.EOF)
				return
			default:
				require.LessOrEqual(t, len(line), 64)
				require.Equal(t, byte('{'), line[0])
			}
		}
		t.Fatal("more messages than lines")
	})
}

func BenchmarkReader(b *testing.B) {
	b.ReportAllocs()
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"input":"` + strings.Repeat("some text ", 1000) + `"}}}` + "\n"
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r := stdio.NewReader(strings.NewReader(line), stdio.Limits{})
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
