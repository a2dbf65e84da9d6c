package shell

import (
	"strings"
	"sync"
)

// A wrapper is the grammar of a program that starts another one named by its
// arguments. The zero value has no options; its first argument is the command.
type wrapper struct {
	// short lists the short options as for getopt: after one that takes a value, attached
	// or as the next word, a colon; two if the value is optional and always attached.
	short string
	long  string // long options; a = for each value they take

	assigns   bool   // NAME=value may precede the command
	operands  int    // arguments between the options and the command
	script    string // options whose value is a shell script, without dashes
	joined    bool   // the command's words are joined to a shell script
	extraArgs bool   // the command gets further arguments
	noCommand string // options with which it starts no command, without dashes
	through   bool   // it changes only how the command is started
	permute   bool   // options may follow operands
	elsewhere bool   // the command runs on another machine or in a container
}

// byName returns a table with an entry for each of the names in table's keys, which are
// separated by spaces.
func byName[V any](table map[string]V) map[string]V {
	all := make(map[string]V)
	for names, v := range table {
		for name := range strings.FieldsSeq(names) {
			if _, twice := all[name]; twice {
				panic("bug: two entries for " + name)
			}
			all[name] = v
		}
	}
	return all
}

// wrappers are the programs that start others. Like the other large tables here,
// it is built on first use, to keep it out of the start-up time of processes that
// do not need it.
var wrappers = sync.OnceValue(func() map[string]wrapper {
	return byName(map[string]wrapper{
		"nohup builtin catchsegv toybox torsocks tsocks winpty": {through: true},
		"noglob nocorrect -":       {through: true}, // zsh
		"repeat":                   {operands: 1},   // zsh
		"coreutils pnpx":           {},
		"gosu su-exec":             {operands: 1},
		"proxychains proxychains4": {short: "qf:"},

		"env": {
			short: "i0vu:C:a:S:P:",
			long: "ignore-environment null unset= chdir= split-string= block-signal default-signal ignore-signal " +
				"list-signal-handling debug argv0=",
			assigns: true,
			through: true,
		},
		"sudo": {
			short: "ABbEeHiKklNnPSsVvC:D:g:h:p:R:r:t:T:U:u:",
			long: "askpass background bell close-from= chdir= preserve-env edit group= set-home host= login " +
				"remove-timestamp reset-timestamp list non-interactive no-update preserve-groups prompt= chroot= " +
				"role= stdin shell type= command-timeout= other-user= user= version validate help",
			assigns:   true,
			noCommand: "e l v V k K edit list validate version",
		},
		"doas":   {short: "Lnsa:C:u:", noCommand: "L C"},
		"pkexec": {long: "user= disable-internal-agent keep-cwd version help"},
		"su": {
			short: "flmpPc:g:G:s:T:w:",
			long: "command= fast group= supp-group= login preserve-environment pty shell= session-command= " +
				"whitelist-environment=",
			script: "c command session-command",
		},
		"runuser": {
			short: "flmpPc:g:G:s:u:T:w:",
			long: "command= fast group= supp-group= login preserve-environment pty shell= session-command= user= " +
				"whitelist-environment=",
			script: "c command session-command",
		},
		"sg":  {short: "c:", operands: 1, script: "c", joined: true},
		"wsl": {short: "ed:u:", long: "distribution= user= cd= exec system"},
		"concurrently": {
			short: "krgn:c:l:p:s:",
			long: "names= prefix= prefix-colors= success= kill-others kill-others-on-fail raw group " +
				"max-processes=",
			permute: true,
		},
		"timeout": {
			short:    "fpvk:s:",
			long:     "foreground preserve-status verbose kill-after= signal=",
			operands: 1,
			through:  true,
		},
		"nice": {short: "0123456789n:", long: "adjustment=", through: true},
		"ionice": {
			short:     "tc:n:p:P:u:",
			long:      "class= classdata= pid= pgid= uid= ignore",
			noCommand: "p P u pid pgid uid",
			through:   true,
		},
		"chrt": {
			short: "abdfimoprRGvT:P:D:",
			long: "all-tasks max pid verbose batch deadline fifo idle other rr reset-on-fork ext sched-runtime= " +
				"sched-period= sched-deadline=",
			operands:  1,
			noCommand: "p m pid max",
		},
		"taskset": {short: "apc", long: "all-tasks pid cpu-list", operands: 1, noCommand: "p pid", through: true},
		"numactl": {
			short: "asHhtVdi:C:c:N:m:p:l:x:w:f:o:",
			long: "all interleave= preferred= physcpubind= cpunodebind= membind= localalloc balancing hardware " +
				"show weighted-interleave= preferred-many=",
			noCommand: "s H show hardware",
		},
		"prlimit": {
			short: "p:o:c::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y::",
			long: "pid= output= noheadings raw verbose as core cpu data fsize locks memlock msgqueue nice nofile " +
				"nproc rss rtprio rttime sigpending stack",
			noCommand: "p pid",
		},
		"setsid": {short: "cfw", long: "ctty fork wait", through: true},
		"setpriv": {
			short: "d",
			long: "dump nnp no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= reuid= " +
				"regid= clear-groups keep-groups init-groups groups= securebits= pdeathsig= ptracer= selinux-label= " +
				"apparmor-profile= landlock-access= landlock-rule= seccomp-filter= reset-env list-caps",
			noCommand: "d dump list-caps",
		},
		"stdbuf":   {short: "i:o:e:", long: "input= output= error=", through: true},
		"unbuffer": {short: "p", through: true},
		"rlwrap":   {short: "acinNrRvAb:B:C:D:f:F:g:H:I:l:m:M:o:p:P:q:s:S:t:w:z:"},

		"time": {short: "apqvVlhf:o:", long: "append format= output= portability quiet verbose version", through: true},

		"command": {short: "pvV", noCommand: "v V", through: true},
		"exec":    {short: "cla:", through: true},
		"chroot":  {long: "userspec= groups= skip-chdir", operands: 1},
		"unshare": {
			short: "cfrimnpuUCThR:w:S:G:l:",
			long: "mount uts ipc net pid user cgroup time fork map-user= map-group= map-users= map-groups= " +
				"map-root-user map-current-user map-auto mount-proc mount-binfmt kill-child keep-caps propagation= " +
				"setgroups= root= wd= setuid= setgid= monotonic= boottime= load-interp=",
		},
		"nsenter": {
			short: "aFeZcrwt:S:G:W:N:m::n::u::i::p::C::U::T::",
			long: "all target= mount uts ipc net pid cgroup user time setuid= setgid= preserve-credentials " +
				"keep-caps root wd wdns= no-fork env follow-context join-cgroup net-socket= user-parent",
		},
		"bwrap": {
			long: "args= argv0= level-prefix unshare-all share-net unshare-user unshare-user-try unshare-ipc " +
				"unshare-pid unshare-net unshare-uts unshare-cgroup unshare-cgroup-try userns= userns2= pidns= " +
				"disable-userns assert-userns-disabled uid= gid= hostname= chdir= clearenv setenv== unsetenv= " +
				"lock-file= sync-fd= bind== bind-try== dev-bind== dev-bind-try== ro-bind== ro-bind-try== " +
				"remount-ro= overlay-src= tmp-overlay= ro-overlay= proc= dev= tmpfs= mqueue= dir= file== " +
				"bind-data== ro-bind-data== symlink== seccomp= add-seccomp-fd= exec-label= file-label= block-fd= " +
				"userns-block-fd= info-fd= json-status-fd= new-session die-with-parent as-pid-1 cap-add= cap-drop= " +
				"perms= size= chmod==",
		},
		"strace": {
			short: "cCdDfFhiknNqrtTvVwxyYzZa:b:e:E:I:o:O:p:P:s:S:u:U:X:",
			long: "attach= output= follow-forks trace= signal= status= string-limit= summary summary-only user= " +
				"env= output-separately",
			noCommand: "p attach",
		},
		"ltrace":     {short: "bcCfhiLrStTvVa:A:D:e:E:F:l:n:o:p:s:u:w:x:X:", noCommand: "p"},
		"gdbserver":  {short: "v", long: "debug once multi wrapper attach", operands: 1},
		"faketime":   {short: "fmp", long: "exclude-monotonic date-prog=", operands: 1},
		"fakeroot":   {short: "ul:s:i:b:f:", long: "lib= faked= unknown-is-real"},
		"fakechroot": {short: "sl:", long: "lib= use-system-libs"},
		"proot":      {short: "r:b:q:k:w:0:R:S:", long: "rootfs= bind= qemu= cwd= kill-on-exit"},
		"caffeinate": {short: "disumt:w:", through: true},
		"arch":       {short: "e:d:", long: "x86_64 arm64 arm64e i386"},
		"setarch": {
			short: "BF3LRSTXZv",
			long: "32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds " +
				"sticky-timeouts read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose list show",
			operands: 1,
		},
		"linux32 linux64": {short: "BF3LRSTXZv"},
		"flock": {
			short: "sexnuoFvhw:E:c:",
			long: "shared exclusive nonblock unlock close no-fork verbose timeout= wait= conflict-exit-code= " +
				"command=",
			operands: 1,
			script:   "c command",
		},
		"watch": {
			short: "bcegtwxrpCfn:q:s:d::",
			long: "beep color no-color differences errexit chgexit equexit= exec interval= no-rerun no-title " +
				"no-wrap precise shotsdir=",
			joined: true,
		},
		"entr": {short: "acdnprsxz"},
		"xargs": {
			short: "0oprtxa:E:I:L:P:d:n:s:R:S:J:e::i::l::",
			long: "null arg-file= delimiter= eof replace max-lines max-args= interactive max-procs= " +
				"no-run-if-empty max-chars= verbose exit show-limits open-tty process-slot-var=",
			extraArgs: true,
		},
		"busybox": {long: "list list-full install help", noCommand: "list list-full install help", through: true},
		"script": {
			short: "aefqrc:E:I:m:o:O:B:T:t::F::",
			long: "append command= echo= return flush force log-in= log-out= log-io= log-timing= logging-format= " +
				"output-limit= quiet timing",
			operands: 1,
			script:   "c command",
		},
		"ssh": {
			short:     "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:p:Q:R:S:W:w:P:",
			operands:  1,
			joined:    true,
			elsewhere: true,
		},
		"systemd-run": {
			short: "drtPqGH:M:p:E:u:S:",
			long: "user system scope unit= property= description= slice= slice-inherit expand-environment= " +
				"no-block remain-after-exit wait send-sighup service-type= uid= gid= nice= working-directory= " +
				"same-dir setenv= pty pipe shell quiet json= collect on-active= on-boot= on-startup= " +
				"on-unit-active= on-unit-inactive= on-calendar= timer-property= path-property= socket-property= " +
				"no-ask-password host= machine=",
		},
		"systemd-inhibit":  {long: "what= who= why= mode= list no-pager no-legend", noCommand: "list"},
		"dbus-run-session": {long: "config-file= dbus-daemon="},
		"dbus-launch": {
			long: "auto-syntax binary-syntax close-stderr exit-with-session autolaunch= sh-syntax csh-syntax " +
				"config-file=",
		},
		"xvfb-run": {
			short: "ale:f:n:p:s:w:",
			long: "auto-servernum error-file= auth-file= server-num= listen-tcp xauth-protocol= server-args= " +
				"wait=",
		},
		"hyperfine": {
			short: "w:m:M:r:s:S:p:c:P:D:L:i:N:n:",
			long: "warmup= min-runs= max-runs= runs= setup= prepare= conclude= cleanup= parameter-scan= " +
				"parameter-step-size= parameter-list= shell= ignore-failure style= sort= time-unit= export-json= " +
				"export-csv= export-markdown= output= input= command-name= show-output",
			script: "s p c setup prepare conclude cleanup",
		},
		"tini":      {short: "gsvwe:p:"},
		"dumb-init": {short: "cvr:", long: "single-child verbose rewrite="},
		"chpst":     {short: "vP012u:U:b:e:m:o:d:n:r:l:L:p:f:t:c:/:"},
		"cpulimit":  {short: "bfvzl:p:e:P:i:", long: "limit= pid= exe= include-children background foreground"},
		"cgexec":    {short: "g:", long: "sticky"},
		"dotenv":    {short: "e:f:c:v:", long: "env= file="},
		"chronic":   {short: "ev", through: true},
		"npx": {
			short:  "yqc:p:w:",
			long:   "yes no quiet package= call= workspace= ignore-existing no-install",
			script: "c call",
		},
		"bunx": {long: "bun"},
		"uvx":  {short: "p:f:i:", long: "from= with= python="},
		"nix-shell": {
			short:  "Qp:A:I:E:",
			long:   "packages= run= command= pure keep= attr= expr= arg= argstr=",
			script: "run command",
		},
		"sshpass": {short: "vp:f:d:e:"},
	})
})

// subcommands are the subcommands that start other programs.
var subcommands = sync.OnceValue(func() map[string]map[string]wrapper {
	return byName(map[string]map[string]wrapper{
		"poetry pipenv pdm hatch rye":    {"run": {}},
		"bundle asdf pyenv rbenv nodenv": {"exec": {}},

		"adb": {"shell": {joined: true, elsewhere: true}},
		"npm": byName(map[string]wrapper{"exec x": wrappers()["npx"]}),
		"pnpm": {
			"exec": {short: "rc", long: "recursive parallel shell-mode"},
			"dlx":  {short: "c:", long: "package="},
		},
		"yarn": {"exec": {}, "dlx": {short: "qp:", long: "package= quiet"}},
		"bun":  {"x": {}},
		"uv": {
			"run": {
				short: "qvnp:m:C:f:",
				long: "with= python= env-file= directory= project= extra= group= package= module no-sync frozen " +
					"locked isolated",
			},
		},
		"conda":  {"run": {short: "vn:p:", long: "name= prefix= cwd= no-capture-output live-stream"}},
		"mamba":  {"run": {short: "vn:p:", long: "name= prefix= cwd="}},
		"direnv": {"exec": {operands: 1}},
		"mise": byName(map[string]wrapper{
			"exec x": {short: "c:C:j:", long: "command= cd= jobs=", script: "c command"},
		}),
		"rustup":        {"run": {long: "install", operands: 1}},
		"nix":           byName(map[string]wrapper{"develop shell": {short: "c:", long: "command="}}),
		"doppler":       {"run": {short: "p:c:", long: "project= config= command="}},
		"op":            {"run": {long: "env-file= no-masking"}},
		"aws-vault":     {"exec": {short: "d:", long: "duration=", operands: 1}},
		"flatpak-spawn": {},
		"perf": {
			"stat":   {short: "adivBcge:p:r:t:C:G:o:I:D:x:"},
			"record": {short: "adgvqRTPsbne:p:r:t:c:F:o:m:C:G:u:D:"},
			"trace":  {short: "e:o:p:C:"},
		},
		"rr": {"record": {}},
		"tmux": byName(map[string]wrapper{
			"new-session new": {short: "AdDEPXc:e:f:F:n:s:t:x:y:", joined: true},
			"new-window neww": {short: "abdkPSc:e:F:n:t:", joined: true},
			"split-window":    {short: "bdfhIvPZc:e:l:t:p:F:", joined: true},
			"run-shell run":   {short: "bCc:d:t:", joined: true},
			"if-shell":        {short: "bFt:", joined: true},
		}),
		"docker podman nerdctl": {
			"exec": {
				short:     "dite:u:w:",
				long:      "detach interactive tty privileged env= env-file= user= workdir= detach-keys=",
				operands:  1,
				elsewhere: true,
			},
			"run": {
				short: "ditPqa:c:e:H:h:l:m:p:u:v:w:",
				long: "rm detach interactive tty privileged init read-only no-healthcheck publish-all quiet " +
					"add-host= annotation= attach= blkio-weight= cap-add= cap-drop= cgroup-parent= cgroupns= " +
					"cidfile= cpu-period= cpu-quota= cpu-shares= cpus= cpuset-cpus= cpuset-mems= device= dns= " +
					"entrypoint= env= env-file= expose= gpus= group-add= health-cmd= hostname= ip= ipc= label= " +
					"link= log-driver= log-opt= mac-address= memory= memory-swap= mount= name= network= net= " +
					"oom-score-adj= pid= pids-limit= platform= publish= pull= restart= runtime= security-opt= " +
					"shm-size= stop-signal= stop-timeout= storage-opt= sysctl= tmpfs= ulimit= user= userns= uts= " +
					"volume= volume-driver= volumes-from= workdir=",
				operands:  1,
				elsewhere: true,
			},
		},
	})
})
