#!/bin/sh
# A worker that is killed in the midst of a program that reduces a number after
# every epoch comes back, goes through the epochs again with what was reduced
# in them, and ends with the others.
#
#     test_launch_restart.sh FLEETRUN REDUCER
fleetrun=$1
reducer=$2
. "$(dirname "$0")/kit.sh"

# The sum over workers 0 and 1 after epoch e is 20 e + 3, on both of them.
for mode in sync half_async async geo; do
    rm -f "$dir/died"
    run --server_num=1 --worker_num=2 --max_restart=1 "$reducer" "$dir" $mode
    [ "$code" = 0 ] || fail "$mode: exit code $code: $(cat "$dir/said")"
    [ -e "$dir/died" ] || fail "$mode: no worker was killed"
    for worker in 0 1; do
        log=$dir/log/workerlog.$worker
        for e in 0 1 2 3 4; do
            grep -q "worker $worker epoch $e sum $((20 * e + 3)) max $e\$" \
                "$log" || fail "$mode: epoch $e of worker $worker: $(cat "$log")"
        done
    done
done
exit $failed
