package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Otel is [otel]: where traces of calls are sent. Its keys are Codex's. Nothing is sent without it.
type Otel struct {
	Environment string `toml:"environment"` // named in all that is sent, such as "staging"

	// An exporter is "none" (default), "otlp-http", or a table
	// {otlp-http = {endpoint = URL, headers = {NAME = VALUE}}}. TraceExporter
	// overrides Exporter.
	Exporter      any `toml:"exporter"`
	TraceExporter any `toml:"trace_exporter"`

	// Accepted for Codex's sake, without effect: metrics are served at /metrics,
	// and prompts and outputs are never sent.
	MetricsExporter any            `toml:"metrics_exporter"`
	LogUserPrompt   bool           `toml:"log_user_prompt"`
	ToolResult      map[string]any `toml:"tool_result"`
}

// An Exporter is where traces are sent.
type Exporter struct {
	// Endpoint is the whole URL that is posted to. "" means the standard
	// variables, or else the standard port of this machine.
	Endpoint string
	Headers  map[string]string // values may hold ${VARIABLE}
}

// Traces returns where traces are sent; ok is false when they are not. Err is nil
// for a config that was read from a file.
func (o Otel) Traces() (e Exporter, ok bool, err error) {
	if o.TraceExporter != nil {
		return parseExporter("trace_exporter", o.TraceExporter)
	}
	if o.Exporter == nil {
		return Exporter{}, false, nil
	}
	e, ok, err = parseExporter("exporter", o.Exporter)
	if e.Endpoint != "" {
		// Codex's exporter is for logs, and its URL ends in their path.
		base := strings.TrimSuffix(e.Endpoint, "/")
		for _, p := range []string{"/v1/logs", "/v1/traces", "/v1/metrics"} {
			base = strings.TrimSuffix(base, p)
		}
		e.Endpoint = base + "/v1/traces"
	}
	return e, ok, err
}

// parseExporter reads one exporter setting.
func parseExporter(key string, v any) (e Exporter, ok bool, err error) {
	fault := func(format string, args ...any) (Exporter, bool, error) {
		return Exporter{}, false, &Error{
			Msg:  key + ": " + fmt.Sprintf(format, args...),
			Hint: `exporters are "none", "otlp-http" and {otlp-http = {endpoint = URL, headers = {}}}`,
		}
	}
	var table map[string]any
	switch v := v.(type) {
	case string:
		table = map[string]any{v: map[string]any{}}
	case map[string]any:
		table = v
	}
	if len(table) != 1 {
		return fault("exactly one exporter must be named")
	}
	for kind, settings := range table {
		switch kind {
		case "none":
			return Exporter{}, false, nil
		case "otlp-http":
		case "otlp-grpc":
			return fault("otlp-grpc is not supported; use otlp-http, which receivers accept as well")
		default:
			return fault("unknown exporter %q", kind)
		}
		m, isTable := settings.(map[string]any)
		if !isTable {
			return fault("%s is a table", kind)
		}
		if err := e.set(m); err != nil {
			return fault("%v", err)
		}
	}
	return e, true, nil
}

// set sets the fields of e to those of a table.
func (e *Exporter) set(table map[string]any) error {
	for k, v := range table {
		switch text, isText := v.(string); {
		case k == "endpoint" && isText:
			u, err := url.Parse(text)
			if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
				return fmt.Errorf("endpoint %q is not a URL", text)
			}
			e.Endpoint = text
		case k == "protocol" && (text == "json" || text == "binary"):
			// JSON is always sent; receivers accept both.
		case k == "headers":
			var ok bool
			if e.Headers, ok = headers(v); !ok {
				return errors.New("headers is a table of strings")
			}
		default:
			return fmt.Errorf("unknown or wrong key %q", k)
		}
	}
	return nil
}

func headers(v any) (map[string]string, bool) {
	m, ok := v.(map[string]any)
	h := map[string]string{}
	for k, v := range m {
		text, isText := v.(string)
		h[k], ok = text, ok && isText
	}
	return h, ok
}

// checkOtel rejects unusable exporters.
func (c *Config) checkOtel(src source) error {
	for key, v := range map[string]any{"exporter": c.Otel.Exporter, "trace_exporter": c.Otel.TraceExporter} {
		if v == nil {
			continue
		}
		if _, _, err := parseExporter(key, v); err != nil {
			e := err.(*Error)
			e.File, e.Line = src.name, src.lineOf(key)
			return e
		}
	}
	return nil
}
