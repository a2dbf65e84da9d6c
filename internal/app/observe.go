package app

import (
	"cmp"
	"log/slog"
	"os"
	"strings"

	"toolgate/internal/audit"
	"toolgate/internal/audit/telemetry"
	"toolgate/internal/gate"
	"toolgate/internal/hooks"
	"toolgate/internal/lazyregexp"
	"toolgate/policy"
)

// observers are what is told of each call. The owner closes them.
type observers struct {
	audit     *audit.Log           // nil when there is none
	telemetry *telemetry.Telemetry // nil when nothing is sent
	hooks     *hooks.Set
	tell      func(gate.Event) // may be nil
}

// observe connects the record of calls, telemetry and the user's hooks to the gate.
func (s *Settings) observe(gate *gate.Gate) (*observers, error) {
	o := &observers{}
	var err error
	if o.telemetry, err = s.telemetry(); err != nil {
		return nil, err
	}
	if o.audit, err = audit.Open(s.StateDir); err != nil {
		s.Log.Warn("calls are not recorded", "err", err)
	}
	gate.Record = o.record
	o.hooks = hooks.New(s.Config.Hooks, hooks.Options{
		Dir: s.Policy.Workspace, Approval: s.Policy.Approval, Log: s.Log, Check: s.control.checkHooks,
		Programs: s.Programs(), AnyPath: s.Policy.Mode == policy.DangerFullAccess,
	})
	o.hooks.Install(gate)
	return o, nil
}

func (o *observers) record(e gate.Event) {
	if o.audit != nil {
		o.audit.Record(e)
	}
	if o.telemetry != nil {
		o.telemetry.Record(e)
	}
	if o.tell != nil {
		o.tell(e)
	}
}

func (o *observers) close(log *slog.Logger) {
	o.hooks.Close()
	if o.telemetry != nil {
		if err := o.telemetry.Close(); err != nil {
			log.Warn("telemetry is incomplete", "err", err)
		}
	}
	if o.audit != nil {
		if err := o.audit.Close(); err != nil {
			log.Error("the record of calls is incomplete", "err", err)
		}
	}
}

// telemetry returns the exporter of traces, nil if the config names no receiver. It takes the endpoint from
// the standard variables of OpenTelemetry, if the config has none, and the variables named in headers.
func (s *Settings) telemetry() (*telemetry.Telemetry, error) {
	traces, ok, err := s.Config.Otel.Traces()
	if err != nil || !ok {
		return nil, err
	}
	base := strings.TrimSuffix(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318"), "/")
	headers := map[string]string{}
	for k, v := range traces.Headers {
		headers[k] = inBraces.ReplaceAllStringFunc(v, func(name string) string {
			return os.Getenv(name[2 : len(name)-1])
		})
	}
	return telemetry.Start(telemetry.Options{
		Version:     Version(),
		Environment: s.Config.Otel.Environment,
		Endpoint:    cmp.Or(traces.Endpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), base+"/v1/traces"),
		Headers:     headers,
		Log:         s.Log,
	}), nil
}

var inBraces = lazyregexp.New(`\$\{(\w+)\}`)

// Records reports whether calls are recorded. They are not if the state folder cannot be written.
func (a *App) Records() bool { return a.observers.audit != nil }

// HookFaults returns why configured hooks would fail.
func (a *App) HookFaults() []error { return a.observers.hooks.Check() }
