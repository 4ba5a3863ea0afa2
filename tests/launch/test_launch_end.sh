#!/bin/sh
# test_launch_end.sh FLEETRUN - how jobs end: well, by a failure, by a signal, and
# that nothing survives them.
fleetrun=$1
. "$(dirname "$0")/kit.sh"

# Those that nobody ends wait here, with a child that a signal to them alone
# would leave behind.
program patient <<'P'
trap 'echo "$me" >>"$dir/order"; exit 0' TERM
sleep 300 &
echo $! >>"$dir/pids.$me"
wait
P

# a_worker_that_fails_gives_its_exit_status_and_its_last_words
program fails <<'P'
[ $me != worker.1 ] && exec "$dir/patient"
for i in $(seq 30); do echo "line $i"; done
exit 3
P
run --server_num=1 --worker_num=2 "$dir/fails"
expect_code 3 'worker that fails'
expect_said 'worker 1 ended with exit status 3 after'
expect_said 'ending the others: 1 server and 1 worker'
expect_said '    line 30'
expect_said '    line 11'
grep -q 'line 10$' "$dir/said" && fail "more than 20 lines"
all_gone || fail "somebody survived a failure"

# a_server_that_crashes_gives_128_and_its_signal
program crashes <<'P'
[ $me = worker.0 ] && exec "$dir/patient"
echo 'about to crash'
kill -SEGV $$
P
run --server_num=1 --worker_num=1 --max_restart=2 "$dir/crashes"
expect_code 139 'server that crashes'
expect_said 'server 0 was ended by SIGSEGV'
expect_said '    about to crash'
expect_said 'a server is not started again'
all_gone || fail "somebody survived a crash"

# signals_end_workers_first_and_then_servers
for signal in INT TERM; do
    rm -f "$dir/order"
    start --server_num=2 --worker_num=2 "$dir/patient"
    until_true 20 have_begun 4 || fail "4 processes did not begin"
    until_true 20 eval '[ "$(cat "$dir"/pids.* | wc -l)" -ge 8 ]'
    kill -$signal $launcher
    wait $launcher
    code=$?
    [ $signal = INT ] && expect_code 130 SIGINT
    [ $signal = TERM ] && expect_code 143 SIGTERM
    [ "$(sed 's/\..*//' "$dir/order" | tr '\n' ' ')" = \
        'worker worker server server ' ] || fail "order: $(cat "$dir/order")"
    all_gone || fail "somebody survived SIG$signal"
done

# nothing_survives_a_launcher_that_is_killed
start --server_num=1 --worker_num=2 "$dir/patient"
until_true 20 eval '[ "$(cat "$dir"/pids.* 2>/dev/null | wc -l)" -ge 6 ]' ||
    fail "3 processes did not begin"
kill -KILL $launcher
wait $launcher 2>/dev/null
until_true 20 all_gone || fail "somebody survived SIGKILL of the launcher"

# a_worker_is_started_again_as_often_as_allowed
program again <<'P'
[ $me = server.0 ] && exit 0
n=$(wc -l <"$dir/pids.$me")
echo "try $n"
[ "$me" = worker.1 ] || exit 0
[ "$n" -gt 2 ] || exit 7
P
rm -f "$dir"/pids.*
run --server_num=1 --worker_num=2 --max_restart=2 "$dir/again"
expect_code 0 'restart'
expect_said 'worker 1 is started again (2 of 2)'
[ "$(cat "$dir/log/workerlog.1" | tr '\n' ' ')" = 'try 1 try 2 try 3 ' ] ||
    fail "the log of a worker that was started again"
rm -f "$dir"/pids.*
run --server_num=1 --worker_num=2 --max_restart=1 "$dir/again"
expect_code 7 'too many restarts'

# a_worker_that_failed_for_good_is_not_started_again
program lost <<'P'
[ $me = server.0 ] && exec sleep 300
cd /
echo 'the loss is nan at batch 7' >"$FLOTILLA_END_NOTE"
exit 3
P
rm -f "$dir"/pids.*
run --server_num=1 --worker_num=1 --max_restart=5 "$dir/lost"
expect_code 3 'a failure for good'
expect_said 'worker 0: the loss is nan at batch 7'
expect_said 'worker 0 is not started again'
[ "$(wc -l <"$dir/pids.worker.0")" -eq 1 ] || fail 'it was started again'
all_gone || fail "somebody survived a failure for good"

# what_a_worker_leaves_behind_ends_with_it
program leaves <<'P'
[ $me = server.0 ] && exit 0
sleep 300 &
echo $! >>"$dir/pids.$me"
P
rm -f "$dir"/pids.*
run --server_num=1 --worker_num=1 "$dir/leaves"
expect_code 0 leftovers
all_gone || fail "a child of a worker survived it"

# servers_that_stay_and_workers_that_ignore_are_ended
program stays <<'P'
[ $me = worker.0 ] && exit 0
exec "$dir/patient"
P
run --server_num=1 --worker_num=1 "$dir/stays"
expect_code 0 'server that stays'
expect_said 'server 0 still runs 5 s after the last worker'
all_gone || fail "a server survived its workers"
program ignores <<'P'
[ $me = worker.1 ] && exit 4
trap '' TERM
sleep 300 &
echo $! >>"$dir/pids.$me"
until false; do wait; done
P
run --server_num=1 --worker_num=2 "$dir/ignores"
expect_code 4 'worker that ignores SIGTERM'
expect_said 'gets SIGKILL'
all_gone || fail "somebody survived by ignoring SIGTERM"
exit $failed
