#!/bin/sh
# test_incremental.sh INCREMENTAL - two days of two servers each, the second from
# what the first has saved, with 1, 2 and 4 trainers, by Executor and by
# ParallelExecutor: the last cost is that of both days in one go.
set -u
program=$(realpath "$1")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "FAIL $*"
    cat ./*.txt
    exit 1
}

# Whoever is left alone ends soon.
export FLOTILLA_CONNECT_TIMEOUT_MS=20000 FLOTILLA_RESTART_TIMEOUT_MS=5000

port=$((10000 + $$ % 10000 * 2))

# start SERVERS TRAINERS STEPS PATH [parallel]: true when all end well.
start()
{
    rm -f ./*.txt
    pids=""
    for id in 0 1; do
        "$program" PSERVER $id "$@" >server$id.txt 2>&1 &
        pids="$pids $!"
    done
    for id in $(seq 0 $(($2 - 1))); do
        "$program" TRAINER "$id" "$@" >trainer"$id".txt 2>&1 &
        pids="$pids $!"
    done
    good=true
    for pid in $pids; do
        wait "$pid" || good=false
    done
    $good
}

# job TRAINERS STEPS PATH [parallel]: on ports that nobody has.
job()
{
    for try in 1 2 3 4 5; do
        port=$((10000 + (port - 10000 + 2) % 20000))
        start "127.0.0.1:$port,127.0.0.1:$((port + 1))" "$@" && return
        grep -qi "in use\|taken" server0.txt server1.txt || break
    done
    fail "try $try of a job with $*"
}

cost()
{
    sed -n 's/.* cost //p' trainer0.txt
}

for trainers in 1 2 4; do
    for how in "" parallel; do
        job $trainers 12 "$dir/whole$trainers$how" $how
        want=$(cost)
        job $trainers 6 "$dir/days$trainers$how" $how
        job $trainers 6 "$dir/days$trainers$how" $how
        grep -q "steps 6 to 12" trainer0.txt || fail "day two begins anew"
        [ "$(cost)" = "$want" ] ||
            fail "$trainers trainers $how end with $(cost), not with $want"
    done
done

"$program" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
