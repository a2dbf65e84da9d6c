package aggregator

// For the tests.
var Fits = fits

// IdleTimer is for the tests.
type IdleTimer = idleTimer

// NewIdleTimer is newIdleTimer.
var NewIdleTimer = newIdleTimer

func (t *idleTimer) Restart() { t.restart() }
func (t *idleTimer) Hold()    { t.hold() }
func (t *idleTimer) Resume()  { t.resume() }
func (t *idleTimer) Stop()    { t.stop() }
