#!/bin/sh
# test_collective_mlp.sh COLLECTIVE_MLP FLOTILLA FLEETRUN - the costs of workers,
# step by step, are those of one process on their joined batches, and the same
# again.
set -u
program=$(realpath "$1")
fleetrun=$(realpath "$3")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export FLOTILLA_CONNECT_TIMEOUT_MS=20000
STEPS=200

fail()
{
    echo "FAIL $*"
    tail -n 20 ./*.txt logs*/* 2>/dev/null
    exit 1
}

# alone_it_is_one_process
"$program" $STEPS >alone.txt 2>&1 || fail "alone it ends with $?"
awk -v steps=$STEPS '
$0 !~ "^worker_index: 0, step" n + 0 " cost = [0-9.]+$" { exit bad = 1 }
{ early += n < 20 ? $NF : 0; late += n >= steps - 20 ? $NF : 0; n++ }
END { exit bad || n != steps || late > 0.9 * early }
' alone.txt || fail "alone it does not learn"

# workers_are_as_one_process_on_their_batches
# The cost of joined batches is the mean of those of the workers.
for workers in 1 2 3 4; do
    "$program" $STEPS $workers >joined.txt 2>&1 || fail "joined it ends with $?"
    for run in 1 2; do
        "$fleetrun" --worker_num=$workers --log_dir=logs$workers.$run \
            "$program" $STEPS >fleetrun.txt 2>&1 ||
            fail "$workers workers end with $?"
    done
    for i in $(seq 0 $((workers - 1))); do
        for run in 1 2; do
            grep '^worker_index' logs$workers.$run/workerlog.$i >costs.$i.$run
        done
        cmp costs.$i.1 costs.$i.2 || fail "worker $i of $workers, twice"
    done
    awk -v workers=$workers -v steps=$STEPS '
FNR == 1 { n_files++ }
n_files == 1 { one[FNR] = $NF; next }
{ sum[FNR] += $NF }
END {
    for (i = 1; i <= steps; i++) {
        d = one[i] - sum[i] / workers
        if (!(i in one) || d > 2e-6 || d < -2e-6) {
            print "step", i, one[i], sum[i] / workers
            exit 1
        }
    }
}' joined.txt costs.*.1 || fail "$workers workers are not one process"
    rm costs.*
done

"$program" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
