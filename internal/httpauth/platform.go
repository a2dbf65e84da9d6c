package httpauth

import "runtime"

// windows does not use permission bits for access control.
const windows = runtime.GOOS == "windows"
