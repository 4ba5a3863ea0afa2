#!/bin/sh
# test_own_mode.sh OWN_MODE FLOTILLA FLEETRUN - the mode trains, and so does the
# program alone.
set -u
program=$(realpath "$1")
fleetrun=$(realpath "$3")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "FAIL $*"
    tail -n 20 ./*.txt logs/* 2>/dev/null
    exit 1
}

# learnt FILE WHAT - the last loss is far below ln 2, that of guessing.
learnt()
{
    awk '
/^step [0-9]+ loss / { last = $4; n++ }
END { exit !(n == 4 && last < 0.35) }' "$1" || fail "$2 has not learnt"
}

"$fleetrun" --server_num=1 --worker_num=2 --log_dir=logs "$program" \
    >job.txt 2>&1 || fail "the job ends with $?"
learnt logs/workerlog.0 "worker 0"
learnt logs/workerlog.1 "worker 1"
"$program" >alone.txt 2>&1 || fail "alone it ends with $?"
learnt alone.txt alone
exit 0
