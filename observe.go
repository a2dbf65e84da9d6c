package main

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"strings"

	"toolgate/audit"
	"toolgate/audit/telemetry"
	"toolgate/config"
	"toolgate/hooks"
	"toolgate/lazyregexp"
	"toolgate/policy"
)

// observers watch the calls of a gate. Close them.
type observers struct {
	audit     *audit.Log           // nil when there is none
	telemetry *telemetry.Telemetry // nil when nothing is sent
	hooks     *hooks.Set
	tell      func(policy.Event) // may be nil
}

// observe gives the gate its record and the user's hooks.
func (s *settings) observe(gate *policy.Gate) (*observers, error) {
	o := &observers{}
	var err error
	if o.telemetry, err = s.telemetry(); err != nil {
		return nil, err
	}
	if o.audit, err = audit.Open(s.stateDir); err != nil {
		s.log.Warn("calls are not recorded", "err", err)
	}
	gate.Record = o.record
	if o.audit != nil {
		gate.Prepare = o.audit.Prepare
	}
	o.hooks = hooks.New(s.config.Hooks, hooks.Options{
		Dir: s.dir(), Approval: s.policy.Approval, Log: s.log, Check: s.control.checkHooks,
		Programs: s.programs(), AnyPath: s.policy.Mode == policy.DangerFullAccess,
	})
	o.hooks.Install(gate)
	return o, nil
}

func (o *observers) record(e policy.Event) {
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

// telemetry starts what sends traces and metrics, nil when the config names
// no receiver.
func (s *settings) telemetry() (*telemetry.Telemetry, error) {
	traces, sendTraces, err1 := s.config.Otel.Traces()
	metrics, sendMetrics, err2 := s.config.Otel.Metrics()
	if err := errors.Join(err1, err2); err != nil || !sendTraces && !sendMetrics {
		return nil, err
	}
	o := telemetry.Options{Version: version(), Environment: s.config.Otel.Environment, Log: s.log}
	if sendTraces {
		o.Traces = receiver(traces, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")
	}
	if sendMetrics {
		o.Metrics = receiver(metrics, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/v1/metrics")
	}
	return telemetry.Start(o)
}

// receiver completes e from the environment: an endpoint that the config
// leaves open, by OpenTelemetry's variables, and variables in headers.
func receiver(e config.Exporter, variable, path string) *telemetry.Exporter {
	base := strings.TrimSuffix(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318"), "/")
	to := &telemetry.Exporter{
		Endpoint: cmp.Or(e.Endpoint, os.Getenv(variable), base+path),
		Headers:  map[string]string{},
	}
	for k, v := range e.Headers {
		to.Headers[k] = inBraces.ReplaceAllStringFunc(v, func(name string) string { return os.Getenv(name[2 : len(name)-1]) })
	}
	return to
}

var inBraces = lazyregexp.New(`\$\{\w+\}`)
