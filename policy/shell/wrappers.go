package shell

import (
	"sync"
)

// A wrapper is the grammar of a program that starts another one named by its
// arguments. The zero value has no options; its first argument is the command.
type wrapper struct {
	flags    string // short options without a value
	values   string // short options with a value, attached or next
	attached string // short options with an optional, attached value
	long     string // long options; a = for each value they take

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

// wrappers are the programs that start others. Like the other large tables here,
// it is built on first use, to keep it out of the start-up time of processes that
// do not need it.
var wrappers = sync.OnceValue(func() map[string]wrapper {
	return map[string]wrapper{
		"env": {
			flags:  "i0v",
			values: "uCaSP",
			long: "ignore-environment null unset= chdir= split-string= block-signal default-signal ignore-signal " +
				"list-signal-handling debug argv0=",
			assigns: true,
			through: true,
		},
		"sudo": {
			flags:  "ABbEeHiKklNnPSsVv",
			values: "CDghpRrtTUu",
			long: "askpass background bell close-from= chdir= preserve-env edit group= set-home host= login " +
				"remove-timestamp reset-timestamp list non-interactive no-update preserve-groups prompt= chroot= " +
				"role= stdin shell type= command-timeout= other-user= user= version validate help",
			assigns:   true,
			noCommand: "e l v V k K edit list validate version",
		},
		"doas":   {flags: "Lns", values: "aCu", noCommand: "L C"},
		"pkexec": {long: "user= disable-internal-agent keep-cwd version help"},
		"su": {
			flags:  "flmpP",
			values: "cgGsTw",
			long: "command= fast group= supp-group= login preserve-environment pty shell= session-command= " +
				"whitelist-environment=",
			script: "c command session-command",
		},
		"runuser": {
			flags:  "flmpP",
			values: "cgGsuTw",
			long: "command= fast group= supp-group= login preserve-environment pty shell= session-command= user= " +
				"whitelist-environment=",
			script: "c command session-command",
		},
		"sg":        {values: "c", operands: 1, script: "c", joined: true},
		"nohup":     {through: true},
		"repeat":    {operands: 1},   // zsh
		"-":         {through: true}, // zsh
		"coreutils": {},
		"pnpx":      {},
		"wsl":       {values: "du", long: "distribution= user= cd= exec system", flags: "e"},
		"concurrently": {
			permute: true,
			flags:   "krg",
			values:  "nclps",
			long:    "names= prefix= prefix-colors= success= kill-others kill-others-on-fail raw group max-processes=",
		},
		"timeout": {
			flags:    "fpv",
			values:   "ks",
			long:     "foreground preserve-status verbose kill-after= signal=",
			operands: 1,
			through:  true,
		},
		"nice": {flags: "0123456789", values: "n", long: "adjustment=", through: true},
		"ionice": {
			flags:     "t",
			values:    "cnpPu",
			long:      "class= classdata= pid= pgid= uid= ignore",
			noCommand: "p P u pid pgid uid",
			through:   true,
		},
		"chrt": {
			flags:  "abdfimoprRGv",
			values: "TPD",
			long: "all-tasks max pid verbose batch deadline fifo idle other rr reset-on-fork ext sched-runtime= " +
				"sched-period= sched-deadline=",
			operands:  1,
			noCommand: "p m pid max",
		},
		"taskset": {flags: "apc", long: "all-tasks pid cpu-list", operands: 1, noCommand: "p pid", through: true},
		"numactl": {
			values: "iCcNmplxwfo",
			flags:  "asHhtVd",
			long: "all interleave= preferred= physcpubind= cpunodebind= membind= localalloc balancing hardware " +
				"show weighted-interleave= preferred-many=",
			noCommand: "s H show hardware",
		},
		"prlimit": {
			values: "po",
			long: "pid= output= noheadings raw verbose as core cpu data fsize locks memlock msgqueue nice nofile " +
				"nproc rss rtprio rttime sigpending stack",
			attached:  "cdefilmnqrstuvxy",
			noCommand: "p pid",
		},
		"setsid": {flags: "cfw", long: "ctty fork wait", through: true},
		"setpriv": {
			flags: "d",
			long: "dump nnp no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= reuid= " +
				"regid= clear-groups keep-groups init-groups groups= securebits= pdeathsig= ptracer= " +
				"selinux-label= apparmor-profile= landlock-access= landlock-rule= seccomp-filter= reset-env " +
				"list-caps",
			noCommand: "d dump list-caps",
		},
		"stdbuf":   {values: "ioe", long: "input= output= error=", through: true},
		"unbuffer": {flags: "p", through: true},
		"rlwrap":   {flags: "acinNrRvwA", values: "bBCDfFgHIlmMopPqsStwz"},
		"time": {
			flags:   "apqvVlh",
			values:  "fo",
			long:    "append format= output= portability quiet verbose version",
			through: true,
		},
		"command":   {flags: "pvV", noCommand: "v V", through: true},
		"builtin":   {through: true},
		"noglob":    {through: true},
		"nocorrect": {through: true},
		"exec":      {flags: "cl", values: "a", through: true},
		"chroot":    {long: "userspec= groups= skip-chdir", operands: 1},
		"unshare": {
			flags:  "cfrimnpuUCTh",
			values: "RwSGl",
			long: "mount uts ipc net pid user cgroup time fork map-user= map-group= map-users= map-groups= " +
				"map-root-user map-current-user map-auto mount-proc mount-binfmt kill-child keep-caps " +
				"propagation= setgroups= root= wd= setuid= setgid= monotonic= boottime= load-interp=",
		},
		"nsenter": {
			flags:    "aFeZcrw",
			values:   "tSGWN",
			attached: "mnuipCUT",
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
				"userns-block-fd= info-fd= json-status-fd= new-session die-with-parent as-pid-1 cap-add= " +
				"cap-drop= perms= size= chmod==",
		},
		"strace": {
			flags:  "cCdDfFhiknNqrtTvVwxyYzZ",
			values: "abeEIoOpPsSuUX",
			long: "attach= output= follow-forks trace= signal= status= string-limit= summary summary-only user= " +
				"env= output-separately",
			noCommand: "p attach",
		},
		"ltrace":     {flags: "bcCfhiLrStTvV", values: "aADeEFlnopsuwxX", noCommand: "p"},
		"catchsegv":  {through: true},
		"gdbserver":  {operands: 1, flags: "v", long: "debug once multi wrapper attach"},
		"faketime":   {flags: "fmp", long: "exclude-monotonic date-prog=", operands: 1},
		"fakeroot":   {flags: "u", values: "lsibf", long: "lib= faked= unknown-is-real"},
		"fakechroot": {flags: "s", values: "l", long: "lib= use-system-libs"},
		"proot":      {values: "rbqkw0RS", long: "rootfs= bind= qemu= cwd= kill-on-exit"},
		"caffeinate": {flags: "disum", values: "tw", through: true},
		"arch":       {values: "ed", long: "x86_64 arm64 arm64e i386"},
		"setarch": {
			flags:    "BF3LRSTXZv",
			operands: 1,
			long: "32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds " +
				"sticky-timeouts read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose list show",
		},
		"linux32": {flags: "BF3LRSTXZv"},
		"linux64": {flags: "BF3LRSTXZv"},
		"flock": {
			flags:  "sexnuoFvh",
			values: "wEc",
			long: "shared exclusive nonblock unlock close no-fork verbose timeout= wait= conflict-exit-code= " +
				"command=",
			operands: 1,
			script:   "c command",
		},
		"watch": {
			flags:    "bcdegtwxrpCf",
			values:   "nqs",
			attached: "d",
			long: "beep color no-color differences errexit chgexit equexit= exec interval= no-rerun no-title " +
				"no-wrap precise shotsdir=",
			joined: true,
		},
		"entr": {flags: "acdnprsxz"},
		"xargs": {
			flags:    "0oprtx",
			values:   "aEILPdnsRSJ",
			attached: "eil",
			long: "null arg-file= delimiter= eof replace max-lines max-args= interactive max-procs= " +
				"no-run-if-empty max-chars= verbose exit show-limits open-tty process-slot-var=",
			extraArgs: true,
		},
		"busybox": {long: "list list-full install help", noCommand: "list list-full install help", through: true},
		"toybox":  {through: true},
		"script": {
			flags:    "aefqr",
			values:   "cEImoOBT",
			attached: "tF",
			long: "append command= echo= return flush force log-in= log-out= log-io= log-timing= logging-format= " +
				"output-limit= quiet timing",
			operands: 1,
			script:   "c command",
		},
		"ssh": {
			flags:     "46AaCfGgKkMNnqsTtVvXxYy",
			values:    "BbcDEeFIiJLlmOopQRSWwP",
			operands:  1,
			joined:    true,
			elsewhere: true,
		},
		"systemd-run": {
			flags:  "drtPqGS",
			values: "HMpEuS",
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
			flags:  "al",
			values: "efnpsw",
			long:   "auto-servernum error-file= auth-file= server-num= listen-tcp xauth-protocol= server-args= wait=",
		},
		"hyperfine": {
			values: "wmMrsSpcPDLiNn",
			long: "warmup= min-runs= max-runs= runs= setup= prepare= conclude= cleanup= parameter-scan= " +
				"parameter-step-size= parameter-list= shell= ignore-failure style= sort= time-unit= export-json= " +
				"export-csv= export-markdown= output= input= command-name= show-output",
			script: "s p c setup prepare conclude cleanup",
		},
		"tini":      {flags: "gsvw", values: "ep"},
		"dumb-init": {flags: "cv", values: "r", long: "single-child verbose rewrite="},
		"gosu":      {operands: 1},
		"su-exec":   {operands: 1},
		"chpst":     {flags: "vP012", values: "uUbemodnrlLpftc/"},
		"cpulimit": {
			values: "lpePi",
			flags:  "bfvz",
			long:   "limit= pid= exe= include-children background foreground",
		},
		"cgexec":       {values: "g", long: "sticky"},
		"torsocks":     {through: true},
		"proxychains":  {flags: "q", values: "f"},
		"proxychains4": {flags: "q", values: "f"},
		"winpty":       {through: true},
		"dotenv":       {values: "efcv", long: "env= file="},
		"chronic":      {flags: "ev", through: true},
		"npx": {
			flags:  "yq",
			values: "cpw",
			long:   "yes no quiet package= call= workspace= ignore-existing no-install",
			script: "c call",
		},
		"bunx":   {long: "bun"},
		"uvx":    {values: "pfi", long: "from= with= python="},
		"tsocks": {through: true},
		"nix-shell": {
			values: "pAIE",
			flags:  "Q",
			long:   "packages= run= command= pure keep= attr= expr= arg= argstr=",
			script: "run command",
		},
		"sshpass": {values: "pfde", flags: "v"},
	}
})

// subcommands are the subcommands that start other programs.
var subcommands = sync.OnceValue(func() map[string]map[string]wrapper {
	return map[string]map[string]wrapper{
		"adb": {"shell": {joined: true, elsewhere: true}},
		"npm": {"exec": wrappers()["npx"], "x": wrappers()["npx"]},
		"pnpm": {
			"exec": {flags: "rc", long: "recursive parallel shell-mode"},
			"dlx":  {values: "c", long: "package="},
		},
		"yarn": {"exec": {}, "dlx": {values: "p", flags: "q", long: "package= quiet"}},
		"bun":  {"x": {}},
		"uv": {
			"run": {
				values: "pmCf",
				flags:  "qvn",
				long: "with= python= env-file= directory= project= extra= group= package= module no-sync frozen " +
					"locked isolated",
			},
		},
		"poetry": {"run": {}},
		"pipenv": {"run": {}},
		"pdm":    {"run": {}},
		"hatch":  {"run": {}},
		"rye":    {"run": {}},
		"conda":  {"run": {values: "np", flags: "v", long: "name= prefix= cwd= no-capture-output live-stream"}},
		"mamba":  {"run": {values: "np", flags: "v", long: "name= prefix= cwd="}},
		"bundle": {"exec": {}},
		"direnv": {"exec": {operands: 1}},
		"mise": {
			"exec": {values: "cCj", long: "command= cd= jobs=", script: "c command"},
			"x":    {values: "cCj", long: "command= cd= jobs=", script: "c command"},
		},
		"asdf":          {"exec": {}},
		"pyenv":         {"exec": {}},
		"rbenv":         {"exec": {}},
		"nodenv":        {"exec": {}},
		"rustup":        {"run": {operands: 1, long: "install"}},
		"nix":           {"develop": {values: "c", long: "command="}, "shell": {values: "c", long: "command="}},
		"doppler":       {"run": {values: "pc", long: "project= config= command="}},
		"op":            {"run": {long: "env-file= no-masking"}},
		"aws-vault":     {"exec": {operands: 1, values: "d", long: "duration="}},
		"flatpak-spawn": {},
		"perf": {
			"stat":   {flags: "adirvBcgx", values: "eprtCGoIDx"},
			"record": {flags: "adgvqRTPsbn", values: "eprtcFomCGuD"},
			"trace":  {values: "eopC"},
		},
		"rr": {"record": {}},
		"tmux": {
			"new-session":  {flags: "AdDEPX", values: "cefFnstxy", joined: true},
			"new":          {flags: "AdDEPX", values: "cefFnstxy", joined: true},
			"new-window":   {flags: "abdkPS", values: "ceFnt", joined: true},
			"neww":         {flags: "abdkPS", values: "ceFnt", joined: true},
			"split-window": {flags: "bdfhIvPZ", values: "celtpF", joined: true},
			"run-shell":    {flags: "bC", values: "cdt", joined: true},
			"run":          {flags: "bC", values: "cdt", joined: true},
			"if-shell":     {flags: "bF", values: "t", joined: true},
		},
		"docker":  {"exec": dockerExec, "run": dockerRun},
		"podman":  {"exec": dockerExec, "run": dockerRun},
		"nerdctl": {"exec": dockerExec, "run": dockerRun},
	}
})

var (
	dockerExec = wrapper{
		flags:     "dit",
		values:    "euw",
		long:      "detach interactive tty privileged env= env-file= user= workdir= detach-keys=",
		operands:  1,
		elsewhere: true,
	}
	dockerRun = wrapper{
		flags:  "ditPq",
		values: "aceHhlmpuvw",
		long: "rm detach interactive tty privileged init read-only no-healthcheck publish-all quiet add-host= " +
			"annotation= attach= blkio-weight= cap-add= cap-drop= cgroup-parent= cgroupns= cidfile= cpu-period= " +
			"cpu-quota= cpu-shares= cpus= cpuset-cpus= cpuset-mems= device= dns= entrypoint= env= env-file= " +
			"expose= gpus= group-add= health-cmd= hostname= ip= ipc= label= link= log-driver= log-opt= " +
			"mac-address= memory= memory-swap= mount= name= network= net= oom-score-adj= pid= pids-limit= " +
			"platform= publish= pull= restart= runtime= security-opt= shm-size= stop-signal= stop-timeout= " +
			"storage-opt= sysctl= tmpfs= ulimit= user= userns= uts= volume= volume-driver= volumes-from= workdir=",
		operands:  1,
		elsewhere: true,
	}
)
