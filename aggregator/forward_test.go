package aggregator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"toolgate/aggregator"
)

func TestTemplatesFit(t *testing.T) {
	for _, tt := range []struct {
		template, uri string
		want          bool
	}{
		{"raw://t/{id}", "raw://t/5", true},
		{"raw://t/{id}", "raw://u/5", false},
		{"raw://{a}/x/{b}", "raw://1/x/2", true},
		{"raw://{a}/x", "raw://1/y", false},
		{"raw://plain", "raw://plain", true},
		{"raw://plain", "raw://plain/2", false},
		{"file:///{+path}", "file:///a/b", true},
		{"raw://{broken", "raw://x", false},
	} {
		require.Equal(t, tt.want, aggregator.Fits(tt.template, tt.uri), "%s %s", tt.template, tt.uri)
	}
}
