package metrics

import (
	"fmt"
	"os"
	"syscall"
)

// systemGauges returns metrics of the process that Linux provides.
func systemGauges() []gauge {
	return []gauge{
		{"process_cpu_seconds_total", "User and system CPU time in seconds.", kindCounter, processorTime},
		{"process_resident_memory_bytes", "Resident memory in bytes.", kindGauge, residentMemory},
		{"process_open_fds", "Number of open file descriptors.", kindGauge, openDescriptors},
		{"process_max_fds", "Maximum number of open file descriptors.", kindGauge, maxDescriptors},
	}
}

func processorTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}

// residentMemory reads proc_pid_statm(5), whose second field is the number of resident pages.
func residentMemory() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, resident float64
	fmt.Sscan(string(text), &size, &resident)
	return resident * float64(os.Getpagesize())
}

func openDescriptors() float64 {
	names, _ := os.ReadDir("/proc/self/fd")
	return max(0, float64(len(names)-1)) // except the one just opened
}

func maxDescriptors() float64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return float64(limit.Cur)
}
