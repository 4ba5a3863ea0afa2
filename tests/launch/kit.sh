# kit.sh - what the tests of the launcher share. The caller has set fleetrun.
# Programs are small shell scripts; every wait has an end.
dir=$(mktemp -d) || exit 1
failed=0
ulimit -c 0
unset TRAINING_ROLE PADDLE_PSERVERS_IP_PORT_LIST PADDLE_TRAINERS_NUM \
    PADDLE_TRAINER_ID PADDLE_TRAINER_ENDPOINTS PADDLE_PSERVER_ID PADDLE_PORT \
    PADDLE_CURRENT_ENDPOINT PADDLE_RANK_IN_NODE POD_IP FLOTILLA_JOB FLOTILLA_HOSTS JOB_COMPLETION_INDEX \
    OMPI_COMM_WORLD_RANK PMI_RANK SLURM_STEP_ID SLURM_STEPID

# Whatever goes wrong, nothing of the test stays behind.
end()
{
    cat "$dir"/pids.* 2>/dev/null | while read -r pid; do
        kill -9 "$pid" 2>/dev/null
    done
    rm -rf "$dir"
}
trap end EXIT

fail()
{
    echo "FAIL $*"
    failed=1
}

# program NAME: the script on standard input becomes $dir/NAME. $me is the name
# of the process in it, such as worker.0.
program()
{
    {
        echo '#!/bin/sh'
        echo 'case $TRAINING_ROLE in'
        echo 'PSERVER) me=server.$PADDLE_PSERVER_ID ;;'
        echo 'TRAINER) me=worker.$PADDLE_TRAINER_ID ;;'
        echo 'esac'
        echo "dir=$dir"
        echo 'echo $$ >>"$dir/pids.$me"'
        cat
    } >"$dir/$1"
    chmod +x "$dir/$1"
}

# run ARGUMENTS: the launcher, with its exit code in $code and everything it
# says in $dir/said.
run()
{
    timeout -k 5 60 "$fleetrun" --log_dir="$dir/log" "$@" >"$dir/said" 2>&1
    code=$?
}

# start ARGUMENTS: the same in the background; a script's background processes
# ignore SIGINT unless somebody undoes it.
start()
{
    rm -f "$dir"/pids.*
    env --default-signal=INT "$fleetrun" --log_dir="$dir/log" "$@" \
        >"$dir/said" 2>&1 &
    launcher=$!
}

# until SECONDS COMMAND: waits for it to become true.
until_true()
{
    tries=$(($1 * 20))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.05
    done
}

have_begun()
{
    [ "$(ls "$dir"/pids.* 2>/dev/null | wc -l)" -ge "$1" ]
}

# Zombies have ended; who takes them away is not our business.
is_gone()
{
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" \
        2>/dev/null)
    [ -z "$state" ] || [ "$state" = Z ]
}

all_gone()
{
    for pid in $(cat "$dir"/pids.* 2>/dev/null); do
        is_gone "$pid" || return 1
    done
}

expect_code()
{
    [ "$code" -eq "$1" ] || fail "$2: exit code $code, not $1: $(cat "$dir/said")"
}

expect_said()
{
    grep -qF -e "$1" "$dir/said" ||
        fail "'$1' is not in: $(cat "$dir/said")"
}
