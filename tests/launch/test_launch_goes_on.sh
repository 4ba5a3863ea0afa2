#!/bin/sh
# test_launch_goes_on.sh FLEETRUN FLOTILLA GOES_ON - a sync job that goes on from
# a saved model, with as many servers, more or none, ends with the bits of one
# that never stopped.
fleetrun=$1
flotilla=$2
goes_on=$3
. "$(dirname "$0")/model_kit.sh"

run --server_num=2 --worker_num=2 "$dir/job" "$dir/data" "$dir/undisturbed" 2
expect_code 0 'undisturbed'
run --server_num=2 --worker_num=2 --resume="$dir/model" "$dir/job" \
    "$dir/data" "$dir/model" 1
expect_code 0 'the first pass'
expect_said 'going on from the beginning: nothing was saved yet'
for servers in --server_num=2 --server_num=3 ''; do
    rm -rf "$dir/gone-on"
    # shellcheck disable=SC2086
    run $servers --worker_num=2 --resume="$dir/model" "$dir/job" "$dir/data" \
        "$dir/gone-on" 2
    expect_code 0 "going on with '$servers'"
    expect_said 'pass 0: 2000 records before'
    [ "$(whole "$dir/undisturbed")" = "$(whole "$dir/gone-on")" ] ||
        fail "'$servers': other bits"
done
exit $failed
