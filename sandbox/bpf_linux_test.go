package sandbox

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
)

// run runs prog in a machine of its own for one system call. That machine
// reads big-endian words, so the call is laid out as such.
func run(t *testing.T, prog []bpfInstr, arch, nr uint32, args ...uint64) action {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, in := range prog {
		raw = append(raw, bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K})
	}
	insts, ok := bpf.Disassemble(raw)
	require.True(t, ok, "an instruction is none")
	vm, err := bpf.NewVM(insts)
	require.NoError(t, err)
	call := make([]byte, 64)
	binary.BigEndian.PutUint32(call[0:], nr)
	binary.BigEndian.PutUint32(call[4:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(call[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(call[20+8*i:], uint32(a>>32))
	}
	ret, err := vm.Run(call)
	require.NoError(t, err)
	return action(uint32(ret))
}

const testArch = 0xc000003e

var no1, no2 = refuse(1), refuse(2)

func TestAssemble(t *testing.T) {
	prog := assemble(testArch, []rule{
		{calls: []uint32{10, 20}, do: no1},
		{calls: []uint32{30}, when: []cond{{arg: 0, op: oneOf, vals: []uint32{5, 6}}}, do: no1},
		{calls: []uint32{30}, when: []cond{{arg: 0, op: oneOf, vals: []uint32{6, 7}}}, do: no2},
		{calls: []uint32{40}, when: []cond{{arg: 1, mask: 0xf, op: noneOf, vals: []uint32{1, 2}}}, do: no1},
		{calls: []uint32{50}, when: []cond{{arg: 2, op: nonZero}}, do: no1},
		{calls: []uint32{60}, when: []cond{{arg: 0, op: oneOf, vals: []uint32{1}}, {arg: 1, op: nonZero}}, do: no1},
		{calls: []uint32{0, 1000}, do: no2},
	})
	for _, c := range []struct {
		name string
		arch uint32
		nr   uint32
		args []uint64
		want action
	}{
		{"unknown call", testArch, 11, nil, retAllow},
		{"beyond all", testArch, 5000, nil, retAllow},
		{"first call of a rule", testArch, 10, nil, no1},
		{"second call of a rule", testArch, 20, nil, no1},
		{"lowest", testArch, 0, nil, no2},
		{"highest", testArch, 1000, nil, no2},
		{"another architecture", 0x40000003, 11, nil, no1},
		{"x32", testArch, 0x40000000 | 11, nil, no1},
		{"x32 beyond", testArch, 0xffffffff, nil, no1},
		{"one of", testArch, 30, []uint64{5}, no1},
		{"the first rule decides", testArch, 30, []uint64{6}, no1},
		{"the next rule", testArch, 30, []uint64{7}, no2},
		{"no rule", testArch, 30, []uint64{8}, retAllow},
		{"high bits do not count", testArch, 30, []uint64{5 | 1<<40}, no1},
		{"masked in", testArch, 40, []uint64{0, 0x80001}, retAllow},
		{"masked out", testArch, 40, []uint64{0, 0x80003}, no1},
		{"zero", testArch, 50, []uint64{1, 1, 0}, retAllow},
		{"low half", testArch, 50, []uint64{0, 0, 1}, no1},
		{"high half", testArch, 50, []uint64{0, 0, 1 << 32}, no1},
		{"both", testArch, 60, []uint64{1, 1}, no1},
		{"only one", testArch, 60, []uint64{1, 0}, retAllow},
		{"only the other", testArch, 60, []uint64{2, 1}, retAllow},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, run(t, prog, c.arch, c.nr, c.args...))
		})
	}
}

// Whatever the calls, each is found and no other.
func FuzzAssembleFindsCalls(f *testing.F) {
	f.Add(uint64(1), uint8(1))
	f.Add(uint64(2), uint8(0))
	f.Add(uint64(3), uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		random := rand.New(rand.NewPCG(seed, 0))
		var rules []rule
		var calls []uint32
		for range n {
			nr := random.Uint32N(500)
			calls = append(calls, nr)
			rules = append(rules, rule{calls: []uint32{nr}, do: no1})
		}
		prog := assemble(testArch, rules)
		for range 50 {
			nr := random.Uint32N(500)
			want := retAllow
			if slices.Contains(calls, nr) {
				want = no1
			}
			require.Equal(t, want, run(t, prog, testArch, nr))
		}
	})
}
