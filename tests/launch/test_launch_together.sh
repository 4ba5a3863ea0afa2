#!/bin/sh
# test_launch_together.sh FLEETRUN FLOTILLA - jobs that are started at the same
# moment on one machine do not get in each other's way.
fleetrun=$1 flotilla=$2
. "$(dirname "$0")/kit.sh"
n=4

"$flotilla" datagen --lines 400 --out "$dir/data" || exit 1
for i in $(seq $n); do
    timeout -k 5 100 "$fleetrun" --log_dir="$dir/log$i" --server_num=2 \
        --worker_num=2 "$flotilla" train ctr_dnn --data "$dir/data" \
        --hidden 4 >"$dir/said$i" 2>&1 &
    eval "job$i=$!"
done
for i in $(seq $n); do
    eval "wait \$job$i" || fail "job $i ends with $?: $(cat "$dir/said$i")"
    grep -q '^epoch 1 of 1: 400 samples' "$dir/log$i/workerlog.0" ||
        fail "job $i does not train 400 records: $(cat "$dir/log$i"/*)"
done
exit $failed
