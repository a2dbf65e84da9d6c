package aggregator_test

import (
	"os"
	"os/signal"
	"syscall"
)

func ignoreInterrupt() { signal.Ignore(os.Interrupt, syscall.SIGTERM) }
