package sandbox

import (
	"fmt"
	"maps"
	"slices"
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

const (
	retAllow action = 0x7fff0000
	retErrno action = 0x00050000
)

// refuse returns the action that fails a call with errno.
func refuse(errno uint32) action { return retErrno | action(errno) }

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

// A bpfInstr is one instruction of classic BPF, in the kernel's layout.
type bpfInstr struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	bpfLoad = 0x20 // BPF_LD | BPF_W | BPF_ABS
	bpfJeq  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	bpfJge  = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	bpfJa   = 0x05 // BPF_JMP | BPF_JA
	bpfAnd  = 0x54 // BPF_ALU | BPF_AND | BPF_K
	bpfRet  = 0x06 // BPF_RET | BPF_K

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
	const eperm = 1
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
		{bpfRet, 0, 0, uint32(refuse(eperm))},
		{bpfLoad, 0, 0, offNr},
		{bpfJge, 0, 1, x32Bit},
		{bpfRet, 0, 0, uint32(refuse(eperm))},
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
		if prog[len(prog)-1].code != bpfRet {
			panic("sandbox: filter rule without an end")
		}
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
	var body []bpfInstr
	for _, c := range r.when {
		body = append(body, c.test()...)
	}
	// A test falls through if it holds. Its jumps otherwise are marked, and are
	// resolved here.
	miss := len(body) + 1
	for i := range body {
		if body[i].jt == missMark {
			body[i].jt = short(miss - i - 1)
		}
		if body[i].jf == missMark {
			body[i].jf = short(miss - i - 1)
		}
		if body[i].code == bpfJa {
			body[i].k = uint32(miss - i - 1)
		}
	}
	return append(body, bpfInstr{bpfRet, 0, 0, uint32(r.do)})
}

// missMark is the placeholder for a jump to the end of the rule.
const missMark = 0xff

// test returns the instructions that fall through if c holds.
func (c cond) test() []bpfInstr {
	low := uint32(offArgs + 8*c.arg)
	load := []bpfInstr{{bpfLoad, 0, 0, low}}
	if c.mask != 0 {
		load = append(load, bpfInstr{bpfAnd, 0, 0, c.mask})
	}
	switch c.op {
	case noneOf:
		for _, v := range c.vals {
			load = append(load, bpfInstr{bpfJeq, missMark, 0, v})
		}
		return load
	case oneOf:
		for i, v := range c.vals {
			load = append(load, bpfInstr{bpfJeq, short(len(c.vals) - i), 0, v})
		}
		return append(load, bpfInstr{bpfJa, 0, 0, 0})
	case nonZero:
		return []bpfInstr{
			{bpfLoad, 0, 0, low + 4},
			{bpfJeq, 0, 2, 0}, // the high half is not zero: holds
			{bpfLoad, 0, 0, low},
			{bpfJeq, missMark, 0, 0},
		}
	}
	panic(fmt.Sprintf("sandbox: unknown filter condition %d", c.op))
}

// short returns n as the offset of a conditional jump.
func short(n int) uint8 {
	if n < 0 || n >= missMark {
		panic(fmt.Sprintf("sandbox: filter rule too long to jump over: %d", n))
	}
	return uint8(n)
}
