package httpauth

import "runtime"

// windows has other ways than permission bits to say who may read a file.
const windows = runtime.GOOS == "windows"
