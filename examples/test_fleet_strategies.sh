#!/bin/sh
# test_fleet_strategies.sh FLEET_STRATEGIES FLOTILLA FLEETRUN - every strategy
# trains, with one replica and with two; words of a strategy are checked.
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
END { exit !(n == 8 && last < 0.35) }' "$1" || fail "$2 has not learnt"
}

# job WORD... - with the words of the program.
job()
{
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir=logs "$program" "$@" \
        >job.txt 2>&1 || fail "$* ends with $?"
    learnt logs/workerlog.0 "$*, worker 0"
    learnt logs/workerlog.1 "$*, worker 1"
}

for strategy in sync half_async async geo; do
    job $strategy
done
CPU_NUM=2
export CPU_NUM
job sync
job async
unset CPU_NUM
job async min_block_size=81920

"$program" async >alone.txt 2>&1 || fail "alone it ends with $?"
learnt alone.txt alone
"$program" slow >refused.txt 2>&1 && fail "strategy 'slow' is taken"
"$program" async min_blok_size=1 >refused.txt 2>&1 && fail "a bad word is taken"
grep -q min_block_size refused.txt || fail "the nearest right word is not told"
"$program" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
