#!/bin/sh
# test_launch_disturbed.sh FLEETRUN FLOTILLA GOES_ON - a sync job whose processes
# are killed again and again ends with the bits of one that nobody disturbed.
fleetrun=$1
flotilla=$2
goes_on=$3
. "$(dirname "$0")/model_kit.sh"

run --server_num=2 --worker_num=2 "$dir/job" "$dir/data" "$dir/undisturbed" 8
expect_code 0 'undisturbed'

export FLOTILLA_SAVE_EVERY_STEPS=25 GOES_ON_PASSES="$dir/passes"

# disturb VICTIMS OPTIONS...: each is killed when there is a new version. The job
# stops before every second pass until that has happened, so that none comes late.
disturb()
{
    victims=$1
    shift
    rm -rf "$dir/model" "$dir/disturbed"
    last='' n=0
    echo 2 >"$dir/passes"
    start "$@" --worker_num=2 --max_restart=5 \
        --resume="$dir/model" "$dir/job" "$dir/data" "$dir/disturbed" 8
    for victim in $victims; do
        until_true 60 has_saved ||
            fail "no new version before $victim is killed: $(cat "$dir/said")"
        kill -KILL "$(tail -n 1 "$dir/pids.$victim")" ||
            fail "$victim ended too early: $(cat "$dir/said")"
        n=$((n + 1))
        until_true 60 grep -q "is started again ($n of 5), from" "$dir/said" ||
            fail "$victim was killed and nothing began: $(cat "$dir/said")"
        last=$(cat "$dir/model/CURRENT")
        echo $((2 + 2 * n)) >"$dir/passes"
    done
    wait $launcher
    code=$?
    expect_code 0 "disturbed: $victims"
    [ "$(whole "$dir/undisturbed")" = "$(whole "$dir/disturbed")" ] ||
        fail "$victims: $(whole "$dir/undisturbed") $(whole "$dir/disturbed")"
}

has_saved()
{
    [ -e "$dir/model/CURRENT" ] && [ "$(cat "$dir/model/CURRENT")" != "$last" ]
}

disturb 'worker.1 server.0 server.1' --server_num=2

# so_does_one_of_workers_alone
disturb 'worker.1 worker.0 worker.1'
exit $failed
