#!/bin/sh
# test_launch_faults.sh FLEETRUN COLLECTIVE FLOTILLA - what becomes of a job of
# workers alone when one of them is killed, stopped, missing or wrong: the others
# name it and end, and nothing is left.
fleetrun=$1 collective=$2 flotilla=$3
. "$(dirname "$0")/kit.sh"
. "$(dirname "$0")/collective_kit.sh"
export FLOTILLA_CONNECT_TIMEOUT_MS=30000

begin()
{
    rm -f "$dir"/pids.* "$dir"/said.*
    list=$(free_list "$1")
    [ "$(echo "$list" | tr , '\n' | wc -l)" -eq "$1" ] ||
        fail "no addresses: $list"
    address_1=$(echo "$list" | cut -d, -f2)
}

long='steps=100000 net=table pause_ms=5'

# a_worker_that_is_killed_is_named_by_all_others_at_once: nobody listens there any
# more, so that nothing is waited for
for lost in 1 0; do
    begin 3
    address=$(echo "$list" | cut -d, -f$((lost + 1)))
    for i in 0 1 2; do
        FLOTILLA_RESTART_TIMEOUT_MS=600000 by_hand $i "$list" $long \
            bad=$lost how=kill at=20
    done
    for i in 0 1 2; do
        [ $i -ne $lost ] || continue
        expect_failed $i
        says $i "worker $lost (127.0.0.1" || says $i "worker $lost at $address" ||
            fail "worker $i does not name $lost: $(cat "$dir/said.$i")"
    done
    status_of $lost
    [ $code -eq 137 ] || fail "worker $lost was not killed: $code"
done

# a_worker_that_is_stopped_is_named_by_all_others: after suspect_ms, and lost after
# the same time again or after restart_timeout_ms, where that is set
# waited RANK SECONDS: that it says how long, or longer where it heard nothing.
waited()
{
    local ms=${2%.*}${2#*.}00 silent
    silent=$(sed -n 's/.*said nothing for \([0-9]*\) ms.*/\1/p' \
        "$dir/said.$1" | head -n 1)
    says $1 "did not come back within $2 s" ||
        says $1 "did not come back in $ms ms" || [ "${silent:-0}" -ge $ms ]
}
stop_one()
{
    begin 3
    for i in 0 1 2; do
        by_hand $i "$list" $long bad=1 how=stop at=20
    done
    for i in 0 2; do
        expect_failed $i
        says $i 'worker 1 (' && says $i 'has been silent for' ||
            fail "worker $i does not name 1: $(cat "$dir/said.$i")"
    done
    # Who is through with waiting first leaves, and the other one may be told of
    # that instead.
    waited 0 $1 || waited 2 $1 ||
        fail "nobody waits $1 s: $(cat "$dir/said.0" "$dir/said.2")"
    kill -CONT "$pid_1"
    expect_failed 1
}
export FLOTILLA_PING_MS=100 FLOTILLA_SUSPECT_MS=700
stop_one 1.4
FLOTILLA_RESTART_TIMEOUT_MS=2300 stop_one 2.3
unset FLOTILLA_PING_MS FLOTILLA_SUSPECT_MS

# a_worker_that_never_comes_is_named_by_all_others, long before they give it up
begin 3
for i in 0 2; do
    FLOTILLA_CONNECT_TIMEOUT_MS=6000 by_hand $i "$list" $long
done
for i in 0 2; do
    expect_failed $i
    says $i "worker $i waits for worker 1 ($address_1) since" ||
        fail "worker $i does not name 1: $(cat "$dir/said.$i")"
    says $i 'up to 6 s in all' || fail "worker $i: $(cat "$dir/said.$i")"
done

# an_error_of_one_worker_ends_all_of_them_at_once
begin 3
for i in 0 1 2; do
    FLOTILLA_RESTART_TIMEOUT_MS=60000 by_hand $i "$list" $long bad=1 \
        how=error at=20
done
expect_failed 1
for i in 0 2; do
    expect_failed $i
    says $i "1 ($address_1" || fail "worker $i: $(cat "$dir/said.$i")"
done

# the_launcher_ends_with_the_status_of_who_failed_and_leaves_nothing: the others
# have said whom they lost
for how in kill exit stop; do
    rm -rf "$dir/log"
    FLOTILLA_SUSPECT_MS=700 run --worker_num=3 "$collective" $long bad=1 \
        how=$how at=20
    case $how in
    kill) expect_code 137 "$how" ;;
    exit) expect_code 3 "$how" ;;
    stop) [ $code -ne 0 ] || fail "a stopped worker is no failure" ;;
    esac
    for i in 0 2; do
        grep -qE '(worker|trainer) 1 ' "$dir/log/workerlog.$i" ||
            fail "$how: worker $i names nobody: $(cat "$dir/log/workerlog.$i")"
    done
    ! grep 'server' "$dir"/log/workerlog.* ||
        fail "$how: who has no servers hears of them"
    [ "$(grep -c 'worker 1 (.*\(down\|silent\)' "$dir/log/workerlog.0")" -le 1 ] ||
        fail "$how: worker 0 says it twice: $(cat "$dir/log/workerlog.0")"
    for pid in $(pgrep -f "^$collective $long bad=1 how=$how"); do
        is_gone "$pid" || fail "$how: process $pid is left"
    done
done

# a_worker_with_fewer_batches_ends_with_the_others
for net in mlp sparse; do
    begin 3
    for i in 0 1 2; do
        by_hand $i "$list" steps=40 net=$net bad=1 how=short at=20
    done
    for i in 0 1 2; do
        status_of $i
        [ $code -eq 0 ] || fail "worker $i ends with $code: $(cat "$dir/said.$i")"
        says $i "worker $i done" || fail "worker $i: $(cat "$dir/said.$i")"
    done
    says 0 'step 39 ' || fail "worker 0 does not train to its end"
    # Rows that the last step found are those of two of them.
    case $net in
    mlp) some="$dir/said.0 $dir/said.1 $dir/said.2" ;;
    *) some="$dir/said.0 $dir/said.2" ;;
    esac
    [ "$(sed -n 's/.*done hash=//p' $some | sort -u | wc -l)" -eq 1 ] ||
        fail "$net: workers differ: $(grep done $some)"
done

# a_worker_that_knows_of_fewer_ends_the_job
begin 3
by_hand 0 "$list" $long
by_hand 1 "$(echo "$list" | cut -d, -f1-2)" $long
by_hand 2 "$list" $long
for i in 0 1 2; do
    expect_failed $i
done
says 1 'give all members the same list' || fail "worker 1: $(cat "$dir/said.1")"

# so_does_one_that_looks_for_others_elsewhere
begin 3
elsewhere=$(free_list 1)
export FLOTILLA_CONNECT_TIMEOUT_MS=6000
by_hand 0 "$list" $long
by_hand 1 "$(echo "$list" | cut -d, -f1-2),$elsewhere" $long
by_hand 2 "$list" $long
export FLOTILLA_CONNECT_TIMEOUT_MS=30000
for i in 0 1 2; do
    expect_failed $i
done
says 1 "worker 2 ($elsewhere" || fail "worker 1: $(cat "$dir/said.1")"

# two_workers_of_one_rank
begin 2
by_hand 0 "$list" steps=300 net=table pause_ms=5
by_hand 1 "$list" steps=300 net=table pause_ms=5
until_true 20 makes_steps 1 || fail "no steps: $(cat "$dir/said.1")"
mv "$dir/said.1" "$dir/said.first"
first=$pid_1
by_hand 1 "$list" steps=300 net=table
expect_failed 1
says 1 "$address_1" || fail "the second worker 1: $(cat "$dir/said.1")"
status_of 0
[ $code -eq 0 ] || fail "worker 0 ends with $code: $(cat "$dir/said.0")"
wait $first || fail "the first worker 1: $(cat "$dir/said.first")"

# a_stranger_on_the_port
begin 2
"$flotilla" server --servers "$address_1" --rank 0 --trainers 1 \
    >"$dir/stranger" 2>&1 &
stranger=$!
echo $stranger >"$dir/pids.stranger"
until_true 20 grep -q listens "$dir/stranger" || fail "no stranger listens"
FLOTILLA_CONNECT_TIMEOUT_MS=6000 by_hand 0 "$list" $long
FLOTILLA_CONNECT_TIMEOUT_MS=6000 by_hand 1 "$list" $long
for i in 0 1; do
    expect_failed $i
    says $i "$address_1" || fail "worker $i: $(cat "$dir/said.$i")"
done
kill $stranger
wait $stranger 2>/dev/null
exit $failed
