package shell

import (
	"strings"
	"sync"
)

// A wrapper is the grammar of a program that starts another one named by its
// arguments. The zero value has no options; its first argument is the command.
type wrapper struct {
	// options are the short options after a dash, as for getopt, and the long ones. After a
	// short option that takes a value, attached or as the next word, there is a colon; two if
	// the value is optional and always attached. A long option has a = for each value.
	options string

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
		"nohup builtin catchsegv toybox torify torsocks tsocks winpty": {through: true},

		"choom":                    {options: "-n:p: adjust= pid=", noCommand: "p pid", through: true},
		"ssh-agent":                {options: "-cdDksTa:E:O:P:t:"},
		"noglob nocorrect -":       {through: true}, // zsh
		"repeat":                   {operands: 1},   // zsh
		"coreutils pnpx":           {},
		"jobs":                     {options: "-lnprsx"}, // -x runs a command
		"gosu su-exec":             {operands: 1},
		"proxychains proxychains4": {options: "-qf:"},

		"env": {
			options: "-i0vu:C:a:S:P: ignore-environment null unset= chdir= split-string= block-signal " +
				"default-signal ignore-signal list-signal-handling debug argv0=",
			assigns: true,
			through: true,
		},
		"sudo": {
			options: "-ABbEeHiKklNnPSsVvC:D:g:h:p:R:r:t:T:U:u: askpass background bell close-from= chdir= " +
				"preserve-env edit group= set-home host= login remove-timestamp reset-timestamp list " +
				"non-interactive no-update preserve-groups prompt= chroot= role= stdin shell type= command-timeout= " +
				"other-user= user= version validate help",
			assigns:   true,
			noCommand: "e l v V K edit list validate version",
		},
		"doas":   {options: "-Lnsa:C:u:", noCommand: "L C"},
		"pkexec": {options: "user= disable-internal-agent keep-cwd version help"},
		"su": {
			options: "-flmpPc:g:G:s:T:w: command= fast group= supp-group= login preserve-environment pty shell= " +
				"session-command= whitelist-environment=",
			script: "c command session-command",
		},
		"runuser": {
			options: "-flmpPc:g:G:s:u:T:w: command= fast group= supp-group= login preserve-environment pty shell= " +
				"session-command= user= whitelist-environment=",
			script: "c command session-command",
		},
		"sg":  {options: "-c:", operands: 1, script: "c", joined: true},
		"wsl": {options: "-ed:u: distribution= user= cd= exec system"},
		"concurrently": {
			options: "-krgn:c:l:p:s: names= prefix= prefix-colors= success= kill-others kill-others-on-fail raw " +
				"group max-processes=",
			permute: true,
		},
		"timeout": {
			options:  "-fpvk:s: foreground preserve-status verbose kill-after= signal=",
			operands: 1,
			through:  true,
		},
		"nice": {options: "-0123456789n: adjustment=", through: true},
		"ionice": {
			options:   "-tc:n:p:P:u: class= classdata= pid= pgid= uid= ignore",
			noCommand: "p P u pid pgid uid",
			through:   true,
		},
		"chrt": {
			options: "-abdfimoprRGvT:P:D: all-tasks max pid verbose batch deadline fifo idle other rr " +
				"reset-on-fork ext sched-runtime= sched-period= sched-deadline=",
			operands:  1,
			noCommand: "p m pid max",
		},
		"taskset": {options: "-apc all-tasks pid cpu-list", operands: 1, noCommand: "p pid", through: true},
		"numactl": {
			options: "-asHhtVdi:C:c:N:m:p:l:x:w:f:o: all interleave= preferred= physcpubind= cpunodebind= " +
				"membind= localalloc balancing hardware show weighted-interleave= preferred-many=",
			noCommand: "s H show hardware",
		},
		"prlimit": {
			options: "-p:o:c::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y:: pid= output= noheadings raw verbose " +
				"as core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack",
			noCommand: "p pid",
		},
		"setsid": {options: "-cfw ctty fork wait", through: true},
		"setpriv": {
			options: "-d dump nnp no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= " +
				"reuid= regid= clear-groups keep-groups init-groups groups= securebits= pdeathsig= ptracer= " +
				"selinux-label= apparmor-profile= landlock-access= landlock-rule= seccomp-filter= reset-env " +
				"list-caps",
			noCommand: "d dump list-caps",
		},
		"stdbuf":   {options: "-i:o:e: input= output= error=", through: true},
		"unbuffer": {options: "-p", through: true},
		"rlwrap":   {options: "-acinNrRvAb:B:C:D:f:F:g:H:I:l:m:M:o:p:P:q:s:S:t:w:z:"},

		"time": {options: "-apqvVlhf:o: append format= output= portability quiet verbose version", through: true},

		"command": {options: "-pvV", noCommand: "v V", through: true},
		"exec":    {options: "-cla:", through: true},
		"chroot":  {options: "userspec= groups= skip-chdir", operands: 1},
		"unshare": {
			options: "-cfrimnpuUCThR:w:S:G:l: mount uts ipc net pid user cgroup time fork map-user= map-group= " +
				"map-users= map-groups= map-root-user map-current-user map-auto mount-proc mount-binfmt kill-child " +
				"keep-caps propagation= setgroups= root= wd= setuid= setgid= monotonic= boottime= load-interp=",
		},
		"nsenter": {
			options: "-aFeZcrwt:S:G:W:N:m::n::u::i::p::C::U::T:: all target= mount uts ipc net pid cgroup user " +
				"time setuid= setgid= preserve-credentials keep-caps root wd wdns= no-fork env follow-context " +
				"join-cgroup net-socket= user-parent",
		},
		"bwrap": {
			options: "args= argv0= level-prefix unshare-all share-net unshare-user unshare-user-try unshare-ipc " +
				"unshare-pid unshare-net unshare-uts unshare-cgroup unshare-cgroup-try userns= userns2= pidns= " +
				"disable-userns assert-userns-disabled uid= gid= hostname= chdir= clearenv setenv== unsetenv= " +
				"lock-file= sync-fd= bind== bind-try== dev-bind== dev-bind-try== ro-bind== ro-bind-try== " +
				"remount-ro= overlay-src= tmp-overlay= ro-overlay= proc= dev= tmpfs= mqueue= dir= file== " +
				"bind-data== ro-bind-data== symlink== seccomp= add-seccomp-fd= exec-label= file-label= block-fd= " +
				"userns-block-fd= info-fd= json-status-fd= new-session die-with-parent as-pid-1 cap-add= cap-drop= " +
				"perms= size= chmod==",
		},
		"strace": {
			options: "-cCdDfFhiknNqrtTvVwxyYzZa:b:e:E:I:o:O:p:P:s:S:u:U:X: attach= output= follow-forks trace= " +
				"signal= status= string-limit= summary summary-only user= env= output-separately",
			noCommand: "p attach",
		},
		"ltrace":     {options: "-bcCfhiLrStTvVa:A:D:e:E:F:l:n:o:p:s:u:w:x:X:", noCommand: "p"},
		"gdbserver":  {options: "-v debug once multi wrapper attach", operands: 1},
		"faketime":   {options: "-fmp exclude-monotonic date-prog=", operands: 1},
		"fakeroot":   {options: "-ul:s:i:b:f: lib= faked= unknown-is-real"},
		"fakechroot": {options: "-sl: lib= use-system-libs"},
		"proot":      {options: "-r:b:q:k:w:0:R:S: rootfs= bind= qemu= cwd= kill-on-exit"},
		"caffeinate": {options: "-disumt:w:", through: true},
		"arch":       {options: "-e:d: x86_64 arm64 arm64e i386"},
		"setarch": {
			options: "-BF3LRSTXZv 32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize " +
				"whole-seconds sticky-timeouts read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose list show",
			operands: 1,
		},
		"linux32 linux64": {options: "-BF3LRSTXZv"},
		"flock": {
			options: "-sexnuoFvhw:E:c: shared exclusive nonblock unlock close no-fork verbose timeout= wait= " +
				"conflict-exit-code= command=",
			operands: 1,
			script:   "c command",
		},
		"watch": {
			options: "-bcegtwxrpCfn:q:s:d:: beep color no-color differences errexit chgexit equexit= exec " +
				"interval= no-rerun no-title no-wrap precise shotsdir=",
			joined: true,
		},
		"entr": {options: "-acdnprsxz"},
		"xargs": {
			options: "-0oprtxa:E:I:L:P:d:n:s:R:S:J:e::i::l:: null arg-file= delimiter= eof replace max-lines " +
				"max-args= interactive max-procs= no-run-if-empty max-chars= verbose exit show-limits open-tty " +
				"process-slot-var=",
			extraArgs: true,
		},
		"busybox": {options: "list list-full install help", noCommand: "list list-full install help", through: true},
		"script": {
			options: "-aefqrc:E:I:m:o:O:B:T:t::F:: append command= echo= return flush force log-in= log-out= " +
				"log-io= log-timing= logging-format= output-limit= quiet timing",
			operands: 1,
			script:   "c command",
		},
		"ssh": {
			options:   "-46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:p:Q:R:S:W:w:P:",
			operands:  1,
			joined:    true,
			elsewhere: true,
		},
		"systemd-run": {
			options: "-drtPqGH:M:p:E:u:S: user system scope unit= property= description= slice= slice-inherit " +
				"expand-environment= no-block remain-after-exit wait send-sighup service-type= uid= gid= nice= " +
				"working-directory= same-dir setenv= pty pipe shell quiet json= collect on-active= on-boot= " +
				"on-startup= on-unit-active= on-unit-inactive= on-calendar= timer-property= path-property= " +
				"socket-property= no-ask-password host= machine=",
		},
		"systemd-inhibit":  {options: "what= who= why= mode= list no-pager no-legend", noCommand: "list"},
		"dbus-run-session": {options: "config-file= dbus-daemon="},
		"dbus-launch": {
			options: "auto-syntax binary-syntax close-stderr exit-with-session autolaunch= sh-syntax csh-syntax " +
				"config-file=",
		},
		"xvfb-run": {
			options: "-ale:f:n:p:s:w: auto-servernum error-file= auth-file= server-num= listen-tcp " +
				"xauth-protocol= server-args= wait=",
		},
		"hyperfine": {
			options: "-w:m:M:r:s:S:p:c:P:D:L:i:N:n: warmup= min-runs= max-runs= runs= setup= prepare= conclude= " +
				"cleanup= parameter-scan= parameter-step-size= parameter-list= shell= ignore-failure style= sort= " +
				"time-unit= export-json= export-csv= export-markdown= output= input= command-name= show-output",
			script: "s p c setup prepare conclude cleanup",
		},
		"tini":      {options: "-gsvwe:p:"},
		"dumb-init": {options: "-cvr: single-child verbose rewrite="},
		"chpst":     {options: "-vP012u:U:b:e:m:o:d:n:r:l:L:p:f:t:c:/:"},
		"cpulimit":  {options: "-bfvzl:p:e:P:i: limit= pid= exe= include-children background foreground"},
		"cgexec":    {options: "-g: sticky"},
		"dotenv":    {options: "-e:f:c:v: env= file="},
		"chronic":   {options: "-ev", through: true},
		"npx": {
			options: "-yqc:p:w: yes no quiet package= call= workspace= ignore-existing no-install",
			script:  "c call",
		},
		"bunx": {options: "bun"},
		"uvx":  {options: "-p:f:i: from= with= python="},
		"nix-shell": {
			options: "-Qp:A:I:E: packages= run= command= pure keep= attr= expr= arg= argstr=",
			script:  "run command",
		},
		"sshpass": {options: "-vp:f:d:e:"},
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
			"exec": {options: "-rc recursive parallel shell-mode"},
			"dlx":  {options: "-c: package="},
		},
		"yarn": {"exec": {}, "dlx": {options: "-qp: package= quiet"}},
		"bun":  {"x": {}},
		"uv": {
			"run": {
				options: "-qvnp:m:C:f: with= python= env-file= directory= project= extra= group= package= module " +
					"no-sync frozen locked isolated",
			},
		},
		"conda":  {"run": {options: "-vn:p: name= prefix= cwd= no-capture-output live-stream"}},
		"mamba":  {"run": {options: "-vn:p: name= prefix= cwd="}},
		"direnv": {"exec": {operands: 1}},
		"mise": byName(map[string]wrapper{
			"exec x": {options: "-c:C:j: command= cd= jobs=", script: "c command"},
		}),
		"rustup":        {"run": {options: "install", operands: 1}},
		"nix":           byName(map[string]wrapper{"develop shell": {options: "-c: command="}}),
		"doppler":       {"run": {options: "-p:c: project= config= command="}},
		"op":            {"run": {options: "env-file= no-masking"}},
		"aws-vault":     {"exec": {options: "-d: duration=", operands: 1}},
		"flatpak-spawn": {},
		"perf": {
			"stat":   {options: "-adivBcge:p:r:t:C:G:o:I:D:x:"},
			"record": {options: "-adgvqRTPsbne:p:r:t:c:F:o:m:C:G:u:D:"},
			"trace":  {options: "-e:o:p:C:"},
		},
		"rr": {"record": {}},
		"tmux": byName(map[string]wrapper{
			"new-session new": {options: "-AdDEPXc:e:f:F:n:s:t:x:y:", joined: true},
			"new-window neww": {options: "-abdkPSc:e:F:n:t:", joined: true},
			"split-window":    {options: "-bdfhIvPZc:e:l:t:p:F:", joined: true},
			"run-shell run":   {options: "-bCc:d:t:", joined: true},
			"if-shell":        {options: "-bFt:", joined: true},
		}),
		"docker podman nerdctl": {
			"exec": {
				options:   "-dite:u:w: detach interactive tty privileged env= env-file= user= workdir= detach-keys=",
				operands:  1,
				elsewhere: true,
			},
			"run": {
				options: "-ditPqa:c:e:H:h:l:m:p:u:v:w: rm detach interactive tty privileged init read-only " +
					"no-healthcheck publish-all quiet add-host= annotation= attach= blkio-weight= cap-add= " +
					"cap-drop= cgroup-parent= cgroupns= cidfile= cpu-period= cpu-quota= cpu-shares= cpus= " +
					"cpuset-cpus= cpuset-mems= device= dns= entrypoint= env= env-file= expose= gpus= group-add= " +
					"health-cmd= hostname= ip= ipc= label= link= log-driver= log-opt= mac-address= memory= " +
					"memory-swap= mount= name= network= net= oom-score-adj= pid= pids-limit= platform= publish= " +
					"pull= restart= runtime= security-opt= shm-size= stop-signal= stop-timeout= storage-opt= " +
					"sysctl= tmpfs= ulimit= user= userns= uts= volume= volume-driver= volumes-from= workdir=",
				operands:  1,
				elsewhere: true,
			},
		},
	})
})
