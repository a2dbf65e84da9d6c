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
	ParseOrdered     = parseOrdered
	KindOf           = kindOf
	Fits             = fits
)

func (o ordered) Get(key string) []byte  { return o.get(key) }
func (o ordered) Text(key string) string { return o.text(key) }
func (f field) Key() string              { return f.key }
func (f field) Value() []byte            { return f.value }

// IdleTimer is for the tests.
type IdleTimer = idleTimer

// NewIdleTimer is newIdleTimer.
var NewIdleTimer = newIdleTimer

func (t *idleTimer) Restart() { t.restart() }
func (t *idleTimer) Hold()    { t.hold() }
func (t *idleTimer) Resume()  { t.resume() }
func (t *idleTimer) Stop()    { t.stop() }
