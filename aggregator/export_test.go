package aggregator

import "time"

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

// Alarms and Clock are for the tests.
type (
	Alarms = alarms
	Clock  = clock
)

func (a *alarms) Start(d time.Duration, late func()) *clock { return a.start(d, late) }

func (c *clock) Restart() { c.restart() }
func (c *clock) Hold()    { c.hold() }
func (c *clock) Resume()  { c.resume() }
func (c *clock) Stop()    { c.stop() }
