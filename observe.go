package main

import (
	"log/slog"

	"toolgate/audit"
	"toolgate/hooks"
	"toolgate/policy"
)

// observers watch the calls of a gate. Close them.
type observers struct {
	audit *audit.Log // nil when there is none
	hooks *hooks.Set
}

// observe gives the gate its record and the user's hooks.
func (s *settings) observe(gate *policy.Gate) *observers {
	o := &observers{}
	var err error
	if o.audit, err = audit.Open(s.stateDir); err != nil {
		s.log.Warn("calls are not recorded", "err", err)
	} else {
		gate.Record = o.audit.Record
	}
	o.hooks = hooks.New(s.config.Hooks, hooks.Options{Dir: s.dir(), Approval: s.policy.Approval, Log: s.log})
	o.hooks.Install(gate)
	return o
}

func (o *observers) close(log *slog.Logger) {
	o.hooks.Close()
	if o.audit == nil {
		return
	}
	if err := o.audit.Close(); err != nil {
		log.Error("the record of calls is incomplete", "err", err)
	}
}
