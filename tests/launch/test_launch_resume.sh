#!/bin/sh
# test_launch_resume.sh FLEETRUN FLOTILLA - a job that goes on from a saved model
# is started again as a whole, from the newest version that is whole.
fleetrun=$1
flotilla=$2
. "$(dirname "$0")/kit.sh"

mkdir "$dir/data"
"$flotilla" datagen --lines 1000 --out "$dir/data/part" 2>/dev/null ||
    fail 'no data'
"$flotilla" train ctr_dnn --data "$dir/data" --hidden 8 --batch 100 \
    --set save_dir="$dir/model" --set save_every_steps=3 --set save_keep=3 \
    >"$dir/said" 2>&1 || fail "no model: $(cat "$dir/said")"
newest=$(cat "$dir/model/CURRENT")
older=$(ls "$dir/model" | grep -v CURRENT | sort | tail -n 2 | head -n 1)

# Each process says where it begins; the first time all wait for an end.
program resumes <<'P'
n=$(wc -l <"$dir/pids.$me")
echo "try $n from $FLOTILLA_RESUME saves to $FLOTILLA_SAVE_DIR keeps $FLOTILLA_SAVE_KEEP"
[ -e "$dir/quiet" ] && [ $n -gt 1 ] && exit 0
sleep 300 &
echo $! >>"$dir/children.$me"
wait
P

# all_begin TRY: the three processes have begun it.
all_begin()
{
    for me in server.0 worker.0 worker.1; do
        [ "$(wc -l 2>/dev/null <"$dir/pids.$me")" = "$1" ] || return 1
    done
}

children_gone()
{
    for pid in $(cat "$dir"/children.*); do
        is_gone "$pid" || return 1
    done
}

# a_lost_server_or_worker_starts_the_whole_job_again
touch "$dir/quiet"
for lost in server.0 worker.1; do
    start --server_num=1 --worker_num=2 --max_restart=2 \
        --resume="$dir/model" "$dir/resumes"
    until_true 20 all_begin 1 || fail "$lost: the job did not begin"
    kill -KILL "$(cat "$dir/pids.$lost")"
    wait $launcher
    code=$?
    expect_code 0 "$lost is lost"
    expect_said "going on from $dir/model/$newest"
    expect_said "the job is started again (1 of 2), from $dir/model/$newest"
    all_begin 2 || fail "$lost: not all were started again"
    children_gone || fail "$lost: somebody of the first try survived"
    for log in serverlog.0 workerlog.0 workerlog.1; do
        grep -q "try 2 from $dir/model/$newest saves to $dir/model keeps 2" \
            "$dir/log/$log" || fail "$log: $(cat "$dir/log/$log")"
    done
done

# a_damaged_version_is_passed_over_and_named
start --server_num=1 --worker_num=2 --max_restart=2 --resume="$dir/model" \
    "$dir/resumes"
until_true 20 all_begin 1 || fail "the job did not begin"
printf x >>"$dir/model/$newest/dense.safetensors"
kill -KILL "$(cat "$dir/pids.worker.0")"
wait $launcher
code=$?
expect_code 0 'a damaged version'
expect_said "version $newest is passed over"
expect_said "the job is started again (1 of 2), from $dir/model/$older"

# what_the_caller_has_set_stays
rm -f "$dir"/pids.*
for me in server.0 worker.0 worker.1; do echo 0 >"$dir/pids.$me"; done
FLOTILLA_SAVE_DIR=/elsewhere FLOTILLA_SAVE_KEEP=7 \
    timeout 60 "$fleetrun" --log_dir="$dir/log" --server_num=1 \
    --worker_num=2 --resume="$dir/model" "$dir/resumes" >"$dir/said" 2>&1
grep -q 'saves to /elsewhere keeps 7' "$dir/log/workerlog.0" ||
    fail "settings: $(cat "$dir/log/workerlog.0")"

# tries_come_to_an_end
rm -f "$dir"/pids.* "$dir/quiet"
program fails <<'P'
[ $me = server.0 ] && exec sleep 300
exit 5
P
run --server_num=1 --worker_num=1 --max_restart=2 --resume="$dir/nothing" \
    "$dir/fails"
expect_code 5 'tries come to an end'
expect_said 'going on from the beginning: nothing was saved yet'
expect_said 'the job is started again (2 of 2), from the beginning'
[ "$(wc -l <"$dir/pids.worker.0")" = 3 ] || fail 'there were not 3 tries'

# an_end_for_good_is_the_end
rm -f "$dir"/pids.*
program for_good <<'P'
[ $me = server.0 ] && exec sleep 300
echo 'the loss is nan' >"$FLOTILLA_END_NOTE"
exit 5
P
run --server_num=1 --worker_num=1 --max_restart=2 --resume="$dir/nothing" \
    "$dir/for_good"
expect_code 5 'an end for good'
expect_said 'worker 0: the loss is nan'
[ "$(wc -l <"$dir/pids.worker.0")" = 1 ] || fail 'it was tried again'

# nothing_whole_is_no_beginning
for v in "$dir"/model/0*; do printf x >>"$v/program.txt"; done
run --server_num=1 --worker_num=1 --resume="$dir/model" "$dir/fails"
expect_code 1 'nothing whole'
expect_said 'versions in'
exit $failed
