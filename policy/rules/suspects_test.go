package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"toolgate/internal/testkit"
	"toolgate/policy/rules"
)

// runners are command lines of programs that run, or may run, `git push`.
const runners = `
env a.b=1 git push
env -- a-b=1 git push
sudo a.b=1 git push
setarch -R git push
setarch x86_64 -R git push
ssh-agent git push
ssh-agent -a sock git push
choom -n 5 -- git push
torify git push
./GIT push
/tmp/GIT push
GIT push
SUDO git push
Bash -c 'git push'
ssh -o 'ProxyCommand git push' host
ssh -o 'ProxyCommand git push a=b' host
ssh -vo ProxyCommand='git push' host
ssh -o 'proxycommand=git push' host
ssh -oProxyCommand='git push' host
ssh host <<< 'git push'
scp -o 'ProxyCommand git push' a b:
sftp -o ProxyCommand='git push' host
gdb -ex run --args git push
gdb -ex 'shell git push'
gdb -batch -ex '!git push'
lldb -- git push
lldb -o 'platform shell git push'
rr record git push
perf mem record git push
perf lock record git push
perf record -g -- git push
perf kmem record git push
heaptrack git push
valgrind --tool=none git push
strace -f git push
ltrace git push
uftrace record git push
bpftrace -c 'git push' -e BEGIN
proot -S / git push
catchsegv git push
unshare -r git push
systemd-run --user git push
systemd-cat git push
script -c 'git push' x
script -qec 'git push'
scriptlive -c 'git push' x
runcon x git push
timeout --foreground 5 git push
ifne git push
pee 'git push'
mispipe 'git push' true
lckdo x git push
zrun git push
chronic git push
vipe git push
setuidgid u git push
softlimit -m 1 git push
envdir d git push
runuser -u u -- git push
machinectl shell x /usr/bin/git push
cgexec -g cpu:x git push
cset shield -e git push
schedtool -D -e git push
numactl -C 0 git push
firejail git push
bwrap --bind / / git push
flatpak run --command=git x push
minijail0 -- git push
nsjail -- git push
npx git push
npm explore x -- git push
npm exec -c 'git push'
pnpm git push
pnpm -r exec git push
yarn exec git push
bunx git push
bun run git push
uvx git push
uv tool run git push
uv run -- git push
pipx run git push
poetry run git push
pipenv run git push
pdm run git push
hatch run git push
pixi run git push
tox exec -- git push
nox -s x -- git push
bundle exec git push
rbenv exec git push
mise exec -- git push
asdf exec git push
volta run git push
fnm exec git push
nvm exec 20 git push
direnv exec . git push
devbox run git push
nix develop -c git push
nix shell x -c git push
guix shell x -- git push
cargo watch -s 'git push'
cargo --config 'target.x.runner="git push"' run
cargo run --config "target.'cfg(all())'.runner = ['git', 'push']"
go run -exec 'git push' .
go test -exec='git push' ./...
go build -toolexec 'git push'
dotnet watch --command 'git push'
mvn exec:exec -Dexec.executable=git -Dexec.args=push
ninja -t query git push
cmake -E env git push
cmake -E time git push
bazel run --run_under='git push' //x
meson devenv git push
scons X='git push'
gmake CC='git push'
gmake deploy CMD='git push'
tox -e x -- git push
just --shell git push
docker run x git push
docker run x sh -c 'git push'
docker compose exec web git push
docker compose run web git push
docker-compose exec web git push
podman exec x git push
lxc exec x -- git push
incus exec x -- git push
kubectl exec pod -- git push
kubectl exec pod git push
kubectl run x --image=y --command -- git push
nomad alloc exec x git push
heroku run git push
fly ssh console -C 'git push'
vagrant ssh -c 'git push'
mosh host git push
rsh host git push
dbclient host git push
et host -c 'git push'
pssh -H host git push
ansible all -m shell -a 'git push'
tsh ssh host git push
gcloud compute ssh x --command='git push'
xterm -e git push
gnome-terminal -- git push
tmux new-session git push
tmux send-keys 'git push' Enter
screen -dm git push
screen -X stuff 'git push'
zellij run -- git push
expect -c 'spawn git push'
unbuffer git push
watchexec git push
nodemon --exec 'git push'
entr git push
chokidar '*.go' -c 'git push'
reflex -- git push
pm2 start git -- push
forever start -c git push
supervisord -c x git push
nq git push
tsp git push
own-tool git push
own-tool -- git push
own-tool --run='git push'
own-tool '{"cmd": "git", "args": ["push"]}'
own-tool 'g""it push'
own-tool bash -c 'gi""t pu\sh'
own-tool --then bash -lc 'git $X'
own-tool <<< 'git push'
own-tool $COMMAND
own-tool git -C x push
own-tool git $X
X=push; own-tool git $X
jobs -x git push
coproc own-tool git push
find . -exec own-tool git push \;
xargs own-tool git push
gcc -wrapper git,push x.c
docker run --entrypoint git x push
git for-each-repo --config=x push
gh alias set x '!git push'
sudo -k git push
su - user -- -c 'git push'
enable -f ./x.so x
declare -A h=(['$(git push)']=1)
x='$(git push)'; a=([$x]=1)
x='$(git push)'; echo ${a[$x]}
set -- 'a[$(git push)]'; echo $(($1))
: ${x:='a[$(git push)]'}; echo $((x))
wait -p 'a[$(git push)]'
mapfile 'a[$(git push)]' < x
getopts a 'a[$(git push)]'
return 'a[$(git push)]'
exec {a['$(git push)']}>x
`

// readers are command lines that mention what is restricted, or hold unknown words, and
// run nothing of it.
const readers = `
grep rm file
grep -rn 'git push' docs
rg 'git push'
echo git push
echo "$(cat x)" rm
printf '%s\n' 'git push'
ls rm make
cat rm
git rm --cached x
git log --grep 'git push'
git commit -m 'rm: git push and make'
git checkout -b make
git add rm
npm install git make
npm run rm
yarn add make
docker rm x
docker compose up -d rm
docker build -t make .
kubectl get pods -n rm
apt-get install -y make git
brew install make
pip install make
go get example.com/make
go test -run rm ./...
mkdir make
touch rm
cp make git
mv rm git
which git rm make
type git
man git
curl -sSf https://example.com/git/push
jq '.git | .push' x.json
test -f rm
[ -d make ]
sed -n 1,5p rm
tar xf make.tar
python3 tool.py rm
node rm.js make
sudo apt-get install make
timeout 5 grep rm x
find . -name rm
cd make
kill $PID
sleep $N
curl $URL
own-tool --verbose x y
own-tool "$X"
own-tool *.go
own-tool push git
ls $DIR
ENVIRONMENT=rm ls
PATH=$PATH:/usr/local/go/bin go test
terraform plan -out rm
gh pr create --title 'git push' --body "rm it"
prettier --write make
eslint rm
`

func TestWhatMayRun(t *testing.T) {
	r := testkit.Rules(t, `
prefix_rule(pattern=["git", "push"], decision="forbidden")
prefix_rule(pattern=["rm"], decision="prompt")
prefix_rule(pattern=["make"], decision="prompt", unless=[["make", "docs"]])
prefix_rule(pattern=["own-tool"])
`)
	for line := range strings.Lines(strings.TrimSpace(runners)) {
		argv := []string{"bash", "-c", line}
		assert.Greater(t, r.Judge(argv).Decision, rules.Allow, line)
	}
	for line := range strings.Lines(strings.TrimSpace(readers)) {
		j := r.Judge([]string{"bash", "-c", line})
		assert.LessOrEqual(t, j.Decision, rules.Allow, "%s: %s", line, j.Reason)
	}
	require.Equal(t, rules.Prompt, r.Judge([]string{"own-tool", "make", "x"}).Decision)
	require.Equal(t, rules.Allow, r.Judge([]string{"own-tool", "make", "docs"}).Decision)
	j := r.Judge([]string{"own-tool", "git", "push"})
	require.Equal(t, "`own-tool git push` may be or run what default.rules:2: forbidden git push restricts", j.Reason)
}
