package approvals

const (
	MaxPerCaller = maxPerCaller
	MaxPending   = maxPending
)
