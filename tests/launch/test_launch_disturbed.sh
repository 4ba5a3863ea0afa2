#!/bin/sh
# test_launch_disturbed.sh FLEETRUN FLOTILLA GOES_ON - a sync job whose processes
# are killed again and again ends with the bits of one that nobody disturbed.
fleetrun=$1
flotilla=$2
goes_on=$3
. "$(dirname "$0")/model_kit.sh"

run --server_num=2 --worker_num=2 "$dir/job" "$dir/data" "$dir/undisturbed" 8
expect_code 0 'undisturbed'

export FLOTILLA_SAVE_EVERY_STEPS=25

# disturb VICTIMS OPTIONS...: each is killed when there is a new version.
disturb()
{
    victims=$1
    shift
    rm -rf "$dir/model" "$dir/disturbed"
    start "$@" --worker_num=2 --max_restart=5 --resume="$dir/model" \
        "$dir/job" "$dir/data" "$dir/disturbed" 8
    last='' n=0
    for victim in $victims; do
        until_true 60 eval '[ -e "$dir/model/CURRENT" ] &&
            [ "$(cat "$dir/model/CURRENT")" != "$last" ]' ||
            fail "no new version before $victim is killed: $(cat "$dir/said")"
        last=$(cat "$dir/model/CURRENT") n=$((n + 1))
        kill -KILL "$(tail -n 1 "$dir/pids.$victim")"
    done
    wait $launcher
    code=$?
    expect_code 0 "disturbed: $victims"
    expect_said "the job is started again ($n of 5), from"
    [ "$(whole "$dir/undisturbed")" = "$(whole "$dir/disturbed")" ] ||
        fail "$victims: $(whole "$dir/undisturbed") $(whole "$dir/disturbed")"
}
disturb 'worker.1 server.0 server.1' --server_num=2

# so_does_one_of_workers_alone
disturb 'worker.1 worker.0'
exit $failed
