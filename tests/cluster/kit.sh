# kit.sh - what the tests of clusters share. A test sources it with its own
# arguments, which are paths.
#
# The test runs once more inside: in namespaces of its own for processes,
# mounts, names and networks. All that it starts, mounts and sets up ends with
# its first process, however that ends; ports and names are its own. Files go to
# $dir, which is memory.

# skip WHY: meson reads 77 as "skipped".
skip()
{
    echo "SKIP $*"
    exit 77
}

# needs COMMANDS...: those that must be installed.
needs()
{
    for command; do
        command -v "$command" >/dev/null ||
            skip "$command is not installed (tools/setup cluster)"
    done
}

PATH=$PATH:/usr/sbin:/sbin
if [ "${FL_CLUSTER_INSIDE:-}" != "$PPID" ]; then
    needs unshare setpriv ip ps
    [ "$(id -u)" = 0 ] || skip "only root can set up networks"
    inside='unshare --mount --net --pid --uts --ipc --fork --kill-child
        --mount-proc'
    $inside true 2>/dev/null || skip "the kernel allows no namespaces here"
    # The death of each ends the next: ours, unshare's, that of the first
    # process inside.
    # shellcheck disable=SC2086
    setpriv --pdeathsig KILL $inside \
        sh -c 'FL_CLUSTER_INSIDE=$$ && export FL_CLUSTER_INSIDE && "$@"' \
        inside sh "$0" "$@" &
    trap 'kill -9 $!; exit 143' TERM INT HUP
    wait $!
    exit $?
fi

for path; do
    set -- "$@" "$(realpath "$path")"
    shift
done
failed=0
dir=/run/test
ulimit -c 0
mount -t tmpfs none /run || skip "the kernel allows no mounts here"
mkdir "$dir"
cd "$dir" || exit 1
others='FLOTILLA|FLAGS|PADDLE|SLURM|OMPI|PMIX?'
for name in $(env | sed -nE "s/^(($others)_[A-Za-z0-9_]*)=.*/\1/p"); do
    unset "$name"
done
unset TRAINING_ROLE POD_IP JOB_COMPLETION_INDEX

# What servers on more than the loopback ask for.
(umask 077 && echo 'a token of the tests' >token)
export FLOTILLA_JOIN_TOKEN_FILE="$dir/token"

fail()
{
    echo "FAIL $*"
    failed=1
}

# until_true SECONDS COMMAND: waits for it to become true.
until_true()
{
    tries=$(($1 * 10))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

# has FILE WORDS: whether a line of the file has them.
has()
{
    grep -qe "$2" "$1" 2>/dev/null
}

# expect FILE WORDS: a line must.
expect()
{
    has "$1" "$2" && return
    fail "'$2' is not in $1:"
    tail -n 20 "$1"
}

# running NAME: how many processes of that name there are, without the dead.
running()
{
    ps -e -o stat=,comm= | awk -v name="$1" '
        $1 !~ /^Z/ && $2 == name { n++ } END { print n + 0 }'
}

none_runs()
{
    for name; do
        [ "$(running "$name")" -eq 0 ] || return 1
    done
}

# expect_none_left NAMES...: nothing of a job may survive it for long.
expect_none_left()
{
    until_true 10 none_runs "$@" && return
    fail "these are left behind:"
    ps -e -o pid,stat,args
}

# --- hosts ----------------------------------------------------------------

# make_network: a bridge, on which this host is called "control".
make_network()
{
    ip link set lo up
    ip link add hub type bridge || skip "the kernel has no bridges"
    ip addr add 10.77.0.254/24 dev hub
    ip link set hub up
    hostname control
    printf '127.0.0.1 localhost\n10.77.0.254 control\n' >hosts
    mount --bind hosts /etc/hosts
}

# make_host NAME ADDRESS: a network namespace, from whose only device a cable
# leads to the hub.
make_host()
{
    ip netns add "$1" && ip -n "$1" link set lo up &&
        ip link add "to_$1" type veth peer name eth0 netns "$1" &&
        ip link set "to_$1" master hub up &&
        ip -n "$1" link set eth0 up &&
        ip -n "$1" addr add "$2/24" dev eth0 ||
        skip "the kernel allows no host $1"
    echo "$2 $1" >>hosts
}

# --- a job ----------------------------------------------------------------

# make_job CTR_DNN FLOTILLA FLEETRUN: what the scripts of examples/cluster want
# in the folder where they run.
make_job()
{
    PATH=$(dirname "$3"):$PATH
    mkdir train test
    ln -s "$1" ctr_dnn
    "$2" datagen --lines 120000 --seed 5 --out log 2>made.txt &&
        split -n l/8 log train/part- &&
        "$2" datagen --lines 4000 --seed 5 --first 120000 --out test/part-0 \
            2>made.txt || fail "no data: $(cat made.txt)"
}

# expect_learnt FILE: the last words of worker 0 are there once.
expect_learnt()
{
    sed -n 's/.*samples\/s, AUC on held-out clicks \(0\.[0-9]*\).*/\1/p' "$1" |
        awk '{ auc = $1 } END { exit !(NR == 1 && auc > 0.55) }' && return
    fail "$1 has no last line, or nothing was learnt:"
    tail -n 20 "$1"
}
