package sse_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"toolgate/internal/sse"
)

func TestReader(t *testing.T) {
	r := sse.NewReader(strings.NewReader(": a comment\n\nid: 7\r\nretry: 20\r\ndata: one\r\ndata:two\r\n\r\n"+
		"event: endpoint\ndata: /there\n\nevent: dropped\n\ndata: last\n\nid: 8\ndata: cut of"), 100)
	for _, want := range []sse.Event{
		{Data: []byte("one\ntwo")},
		{Kind: "endpoint", Data: []byte("/there")},
		{Data: []byte("last")},
	} {
		got, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := r.Next()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 20*time.Millisecond, r.Retry)
	require.Equal(t, "8", r.LastID)

	for _, long := range []string{"data: " + strings.Repeat("x", 100), strings.Repeat("data: some\n", 50)} {
		_, err = sse.NewReader(strings.NewReader(long), 100).Next()
		require.EqualError(t, err, "event longer than 100 bytes")
	}
}
