#!/bin/sh
# test_launch_trace.sh FLEETRUN FLOTILLA - timelines of all processes of a job in
# one file, on one clock.
fleetrun=$1 flotilla=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/kit.sh"
check="python3 $here/check_trace.py"

"$flotilla" datagen --lines 2000 --out "$dir/clicks" 2>/dev/null
mkdir "$dir/train"
split -n l/4 "$dir/clicks" "$dir/train/part-"

# train MODE WORKERS OPTIONS: a job over these files.
train()
{
    mode=$1 workers=$2
    shift 2
    run --worker_num="$workers" "$@" "$flotilla" train ctr_dnn --mode "$mode" \
        --batch 50 --data "$dir/train"
    expect_code 0 "--trace, mode $mode"
}

expect_wait()
{
    grep -qx -e "$1" "$dir/waits" ||
        fail "$mode: nobody waits as '$1': $(cat "$dir/waits")"
}

# servers_and_workers_are_in_one_file_with_their_names_and_waits
train sync 2 --server_num=2 --trace="$dir/sync"
expect_said "$dir/sync/job.json has the timelines of 4 processes"
$check "$dir/sync/job.json" 'server 0' 'server 1' 'worker 0' 'worker 1' \
    >"$dir/waits" || fail "sync: $(cat "$dir/waits")"
expect_wait 'wait: barrier'
expect_wait 'wait: pull_sparse'
expect_wait 'wait: send_barrier'

# every_process_has_a_file_of_its_own_that_loads_alone
[ "$(ls "$dir"/sync/*.trace.json | wc -l)" -eq 4 ] ||
    fail "the parts: $(ls "$dir/sync")"
grep -qe '"name":"pull"' "$dir"/sync/server-0.*.trace.json ||
    fail 'what a server serves is not in its timeline'

# a_file_can_be_named_and_a_run_before_is_not_in_it
train async 1 --server_num=1 --trace="$dir/one.json"
train async 1 --server_num=1 --trace="$dir/one.json"
$check "$dir/one.json" 'server 0' 'worker 0' >"$dir/waits" ||
    fail "async: $(cat "$dir/waits")"

grep -qe '"cat":"queue"' "$dir/one.json" || fail 'nothing is sent from queues'

# a_tool_that_does_nothing_leaves_no_file
FLOTILLA_TRACE=$dir/tool "$flotilla" status 127.0.0.1:1 >/dev/null 2>&1
[ ! -e "$dir/tool" ] || fail "a tool leaves $(ls "$dir/tool")"

# workers_that_serve_are_workers
train collective 2 --trace="$dir/alone"
$check "$dir/alone/job.json" 'worker 0' 'worker 1' >"$dir/waits" ||
    fail "collective: $(cat "$dir/waits")"

# parts_that_were_brought_together_by_hand_are_merged
"$flotilla" trace "$dir/sync" -o "$dir/again.json" >"$dir/said" 2>&1
code=$?
expect_code 0 'flotilla trace'
cmp -s "$dir/again.json" "$dir/sync/job.json" || fail 'another file by hand'

# clocks_of_other_machines_are_set_by_what_was_measured: server 1 is an hour ahead
mkdir "$dir/hour"
cp "$dir"/sync/*.trace.json "$dir/hour"
for part in "$dir"/hour/server-1.*; do
    python3 - "$part" <<'END'
import re, sys
hour = 3600 * 10**9
text = open(sys.argv[1]).read()
text = re.sub(r'"began_us":(\d+)',
              lambda m: '"began_us":%d' % (int(m[1]) + hour // 1000), text)
text = re.sub(r'"ahead_ns":(-?\d+)',
              lambda m: '"ahead_ns":%d' % (int(m[1]) - hour), text)
text = re.sub(r'"ts":([1-9]\d*)\.',
              lambda m: '"ts":%d.' % (int(m[1]) + hour // 1000), text)
open(sys.argv[1], "w").write(text)
END
done
"$flotilla" trace "$dir/hour" -o "$dir/hour.json" >"$dir/said" 2>&1
cmp -s "$dir/hour.json" "$dir/sync/job.json" || fail 'an hour is left over'

# what_cannot_be_merged_is_said
mkdir "$dir/none"
"$flotilla" trace "$dir/none" -o "$dir/x.json" >"$dir/said" 2>&1
code=$?
expect_code 1 'an empty folder'
expect_said 'did the processes run with the setting trace'
echo '{' >"$dir/none/bad.trace.json"
"$flotilla" trace "$dir/none" -o "$dir/x.json" >"$dir/said" 2>&1
expect_said 'bad.trace.json'
[ ! -e "$dir/x.json" ] || fail 'half a file'
run --worker_num=1 --trace=/proc/none true
expect_code 1 'a folder that cannot be'
expect_said '(--trace)'

exit $failed
