#!/bin/sh
# test_launch_dealt.sh FLEETRUN FLOTILLA CTR - CTR-DNN whose table is dealt over its
# workers comes to what sync mode with a server comes to.
fleetrun=$1 flotilla=$2 ctr=$3
. "$(dirname "$0")/kit.sh"

mkdir "$dir/data"
for i in 0 1 2; do
    "$flotilla" datagen --lines 3000 --first $((i * 3000)) \
        --out "$dir/data/part-$i" >/dev/null || fail "no data"
done

# compare LIMIT WORKERS OPTIMIZER RATE [FROM]
compare()
{
    rm -rf "$dir/sync" "$dir/alone"
    run --server_num=1 --worker_num="$2" "$ctr" train "$dir/data" sync "$3" \
        "$4" "$dir/sync" ${5:+"$5"}
    expect_code 0 "$2 workers, sync, $3"
    run --worker_num="$2" "$ctr" train "$dir/data" collective "$3" "$4" \
        "$dir/alone" ${5:+"$5"}
    expect_code 0 "$2 workers, collective, $3"
    "$ctr" compare "$dir/sync" "$dir/alone" "$1" >"$dir/said" 2>&1 ||
        fail "$2 workers, $3: $(cat "$dir/said")"
    echo "$2 workers, $3: $(cat "$dir/said")"
}
for workers in 2 3; do
    compare 1e-6 $workers sgd 0.1
    compare 1e-6 $workers momentum 0.01
    compare 2e-4 $workers adagrad 0.01
    compare 2e-4 $workers ftrl 0.01
    compare 2e-4 $workers adam 0.001
done

# what_workers_saved_both_go_on_with
mv "$dir/alone" "$dir/from"
compare 2e-4 2 adam 0.001 "$dir/from"
exit $failed
