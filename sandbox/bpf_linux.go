package sandbox

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// A rule is one row of a system call filter: the calls it applies to, the action,
// and the reason. A rule with conditions matches a call whose arguments satisfy
// all of them. The first matching rule decides; a call without one is allowed.
type rule struct {
	calls []uint32
	when  []cond
	do    action
	why   string
}

// An action is what the kernel does with a call: the return value of a
// seccomp filter.
type action uint32

const retAllow action = unix.SECCOMP_RET_ALLOW

// refuse returns the action that fails a call with errno.
func refuse(errno unix.Errno) action { return unix.SECCOMP_RET_ERRNO | action(errno) }

// A cond compares one argument. Except for nonZero, only the low 32 bits count:
// the arguments it is used on are ints, and the kernel ignores the rest.
type cond struct {
	arg  int
	mask uint32 // applied first; 0 means all bits
	op   condOp
	vals []uint32
}

type condOp int

const (
	oneOf   condOp = iota // equal to one of vals
	noneOf                // equal to none of vals
	nonZero               // not zero, all 64 bits
)

// A bpfInstr is one instruction of classic BPF.
type bpfInstr unix.SockFilter

const (
	bpfLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfJeq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfJge  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfJa   = unix.BPF_JMP | unix.BPF_JA
	bpfAnd  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	bpfRet  = unix.BPF_RET | unix.BPF_K

	// Offsets in struct seccomp_data, little endian.
	offNr   = 0
	offArch = 4
	offArgs = 16

	x32Bit = 0x40000000
)

// assemble returns the filter for rules on the architecture arch. Calls of its
// other ABIs are all refused, because their numbers mean other calls.
//
// The filter finds a call by binary search. When a filter is installed, the kernel
// evaluates it for every call there is, which takes longer for a linear search
// than starting a process.
func assemble(arch uint32, rules []rule) []bpfInstr {
	blocks := map[uint32][]bpfInstr{}
	for _, r := range rules {
		body := r.body()
		for _, nr := range r.calls {
			blocks[nr] = append(blocks[nr], body...)
		}
	}
	calls := slices.Sorted(maps.Keys(blocks))
	return append([]bpfInstr{
		{bpfLoad, 0, 0, offArch},
		{bpfJeq, 1, 0, arch},
		{bpfRet, 0, 0, uint32(eperm)},
		{bpfLoad, 0, 0, offNr},
		{bpfJge, 0, 1, x32Bit},
		{bpfRet, 0, 0, uint32(eperm)},
	}, find(calls, blocks)...)
}

var allow = bpfInstr{bpfRet, 0, 0, uint32(retAllow)}

// find returns the instructions that jump to the block of the call whose number is
// in the accumulator, and allow any call that is not among calls.
func find(calls []uint32, blocks map[uint32][]bpfInstr) []bpfInstr {
	switch len(calls) {
	case 0:
		return []bpfInstr{allow}
	case 1:
		prog := append([]bpfInstr{{bpfJeq, 1, 0, calls[0]}, allow}, blocks[calls[0]]...)
		return append(prog, allow)
	}
	half := len(calls) / 2
	low, high := find(calls[:half], blocks), find(calls[half:], blocks)
	prog := []bpfInstr{{bpfJge, 0, 1, calls[half]}, {bpfJa, 0, 0, uint32(len(low))}}
	return append(append(prog, low...), high...)
}

// body returns the instructions that take r's action if its conditions hold, and
// otherwise continue behind them.
func (r rule) body() []bpfInstr {
	body := []bpfInstr{{bpfRet, 0, 0, uint32(r.do)}}
	for _, c := range slices.Backward(r.when) {
		body = append(c.test(len(body)), body...)
	}
	return body
}

// test returns the instructions that fall through if c holds, and otherwise skip
// the rest of the rule, which is that many instructions.
func (c cond) test(rest int) []bpfInstr {
	low := uint32(offArgs + 8*c.arg)
	load := []bpfInstr{{bpfLoad, 0, 0, low}}
	if c.mask != 0 {
		load = append(load, bpfInstr{bpfAnd, 0, 0, c.mask})
	}
	switch c.op {
	case noneOf:
		for i, v := range c.vals {
			load = append(load, bpfInstr{bpfJeq, short(len(c.vals) - i - 1 + rest), 0, v})
		}
		return load
	case oneOf:
		for i, v := range c.vals {
			load = append(load, bpfInstr{bpfJeq, short(len(c.vals) - i), 0, v})
		}
		return append(load, bpfInstr{bpfJa, 0, 0, uint32(rest)})
	case nonZero:
		return []bpfInstr{
			{bpfLoad, 0, 0, low + 4},
			{bpfJeq, 0, 2, 0}, // the high half is not zero: holds
			{bpfLoad, 0, 0, low},
			{bpfJeq, short(rest), 0, 0},
		}
	}
	panic(fmt.Sprintf("sandbox: unknown filter condition %d", c.op))
}

// short returns n as the offset of a conditional jump.
func short(n int) uint8 {
	if n < 0 || n > math.MaxUint8 {
		panic(fmt.Sprintf("sandbox: filter rule too long to jump over: %d", n))
	}
	return uint8(n)
}
