#!/bin/sh
# test_launch_ledger.sh FLEETRUN FLOTILLA LEDGER - a job that goes on from saved
# models while its processes are killed at random trains every record once per
# pass. SEED=N repeats the choices of a run.
fleetrun=$1
flotilla=$2
ledger=$3
. "$(dirname "$0")/kit.sh"

records=1500
seed=${SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
echo "seed $seed"

# draw N: a number below N.
draw()
{
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

mkdir "$dir/data"
for worker in 0 1; do
    for part in 0 1 2; do
        awk -v w=$worker -v p=$part -v n=$((records / 6)) 'BEGIN {
            for (i = 0; i < n; i++) {
                k = (w * 3 + p) * n + i
                print "1 " k " 1 " k % 2
            }
        }' >"$dir/data/part-$worker-$part"
    done
done
program job <<P
exec "$ledger" "\$@"
P

# entries DIR: how often each number stands in the ledger.
entries()
{
    "$flotilla" export "$1" --tsv rows | sed -n 's/.*value=//p' |
        sort | uniq -c | awk '{ print $1, $2 }'
}

# The number that one pass writes, undisturbed.
one_pass()
{
    run --server_num=2 --worker_num=2 "$dir/job" "$dir/data" "$dir/one-$1" 1 "$1"
    expect_code 0 "one pass in mode $1"
    entries "$dir/one-$1" | awk -v n=$records '$1 == n { print $2 }'
}

# A new version is there, or the job is over.
has_saved()
{
    ! kill -0 $launcher 2>/dev/null || { [ -e "$dir/model-$mode/CURRENT" ] &&
        [ "$(cat "$dir/model-$mode/CURRENT")" != "$last" ]; }
}

for mode in sync half_async async; do
    epochs=40
    [ $mode = sync ] && epochs=12
    once=$(one_pass $mode)
    [ -n "$once" ] || fail "$mode: $(entries "$dir/one-$mode")"
    FLOTILLA_SAVE_EVERY_STEPS=20
    export FLOTILLA_SAVE_EVERY_STEPS
    start --server_num=2 --worker_num=2 --max_restart=5 \
        --resume="$dir/model-$mode" "$dir/job" "$dir/data" "$dir/end-$mode" \
        $epochs $mode
    last=
    for n in 1 2 3; do
        until_true 60 has_saved ||
            fail "$mode: no new version: $(cat "$dir/said")"
        last=$(cat "$dir/model-$mode/CURRENT" 2>/dev/null)
        draw 4
        victim=$(echo server.0 server.1 worker.0 worker.1 |
            cut -d ' ' -f $((drawn + 1)))
        kill -KILL "$(tail -n 1 "$dir/pids.$victim")" 2>/dev/null ||
            echo "$mode: $victim had ended"
    done
    wait $launcher
    code=$?
    unset FLOTILLA_SAVE_EVERY_STEPS
    expect_code 0 "$mode, disturbed"
    expected="$records $(awk -v x="$once" -v n=$epochs 'BEGIN { print x * n }')"
    [ "$(entries "$dir/end-$mode")" = "$expected" ] ||
        fail "$mode: not $expected: $(entries "$dir/end-$mode")"
    for worker in 0 1; do
        grep -q "counted $((records / 2 * epochs)) records" \
            "$dir/log/workerlog.$worker" ||
            fail "$mode: worker $worker: $(tail -n 3 "$dir/log/workerlog.$worker")"
    done
    [ $mode = sync ] && expect_said 'the job is started again'
done
exit $failed
