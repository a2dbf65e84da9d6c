package sandbox

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Beyond the limit of inotify, folders are watched with fanotify, whose marks have a
// limit of their own (fs.fanotify.max_user_marks). Since Linux 5.13 it needs no
// privilege for marks on single folders. Events name the folder by its file handle.

// openFanotify returns a descriptor for [markFolder], or -1 if the kernel refuses it.
func openFanotify() int {
	const flags = unix.FAN_CLASS_NOTIF | unix.FAN_REPORT_DFID_NAME | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK
	fd, err := unix.FanotifyInit(flags, unix.O_RDONLY)
	if err != nil {
		return -1
	}
	return fd
}

// markFolder watches the folder at path with the fanotify descriptor fan and returns
// the id by which events name it.
func markFolder(fan int, path string) (id string, err error) {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil {
		return "", err
	}
	handle, _, err := unix.NameToHandleAt(dir, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return "", err
	}
	const events = unix.FAN_CREATE | unix.FAN_MOVED_TO | unix.FAN_DELETE_SELF | unix.FAN_ONDIR
	if err := unix.FanotifyMark(fan, unix.FAN_MARK_ADD|unix.FAN_MARK_ONLYDIR, events, dir, ""); err != nil {
		return "", err
	}
	key := bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&fs.Fsid)), unsafe.Sizeof(fs.Fsid)))
	key = binary.NativeEndian.AppendUint32(key, uint32(handle.Size()))
	key = binary.NativeEndian.AppendUint32(key, uint32(handle.Type()))
	return string(append(key, handle.Bytes()...)), nil
}

// eachFanotifyEvent calls handle for every event in buf: with the id of the folder, the
// event's mask in the terms of inotify, and the name that came into being.
func eachFanotifyEvent(buf []byte, handle func(id string, mask uint32, name string)) {
	const size = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	for len(buf) >= size {
		e := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&buf[0]))
		info := buf[e.Metadata_len:e.Event_len]
		buf = buf[e.Event_len:]
		if e.Mask&unix.FAN_Q_OVERFLOW != 0 {
			handle("", unix.IN_Q_OVERFLOW, "")
		}
		if len(info) < 20 || info[0] != unix.FAN_EVENT_INFO_TYPE_DFID_NAME {
			continue
		}
		// struct fanotify_event_info_fid: type, padding, 16 bits of length, file
		// system, and struct file_handle: length, type, handle. The name follows.
		info = info[4:binary.NativeEndian.Uint16(info[2:])]
		end := 16 + int(binary.NativeEndian.Uint32(info[8:]))
		name, _, _ := bytes.Cut(info[end:], []byte{0})
		mask := uint32(unix.IN_CREATE)
		switch {
		case e.Mask&unix.FAN_DELETE_SELF != 0:
			mask = unix.IN_IGNORED
		case e.Mask&unix.FAN_ONDIR != 0:
			mask |= unix.IN_ISDIR
		}
		handle(string(info[:end]), mask, string(name))
	}
}
