package aggregator

// For the tests.
var (
	CleanInputSchema = cleanInputSchema
	FitSchema        = fitSchema
	ShrinkSchema     = shrinkSchema
	RestoreArguments = restoreArguments
	PublicNames      = publicNames
	DefaultPrefix    = defaultPrefix
	PlainName        = plainName
	PlainProperty    = plainProperty
	Fits             = fits
)

// IdleTimer is for the tests.
type IdleTimer = idleTimer

// NewIdleTimer is newIdleTimer.
var NewIdleTimer = newIdleTimer

func (t *idleTimer) Restart() { t.restart() }
func (t *idleTimer) Hold()    { t.hold() }
func (t *idleTimer) Resume()  { t.resume() }
func (t *idleTimer) Stop()    { t.stop() }
