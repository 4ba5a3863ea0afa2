#!/bin/sh
# test_launch_logs.sh FLEETRUN - logs that cannot be written: it is told, and
# nobody waits.
fleetrun=$1
. "$(dirname "$0")/kit.sh"

# More than a pipe holds.
n=300000
program talks <<P
[ "\${me%.*}" = worker ] && seq $n
echo "\$me has said it all"
P

# The launcher's own output goes through a pipe: a file would have the limit of
# the logs.
run_with_small_files()
{
    (
        ulimit -f 64
        timeout -k 5 60 "$fleetrun" --log_dir="$dir/log" "$@" 2>&1
        echo $? >"$dir/code"
    ) | cat >"$dir/said"
    code=$(cat "$dir/code")
}

# expect_once WORDS
expect_once()
{
    [ "$(grep -cF -e "$1" "$dir/said")" -eq 1 ] ||
        fail "'$1' is not there once: $(grep -v '^[0-9]*$' "$dir/said")"
}

# Worker 0 is shown from its first line to its last; a message of the launcher
# may break one.
expect_all_shown()
{
    grep -v '^fleetrun: ' "$dir/said" | tr -d '\n' >"$dir/shown"
    { seq $n; printf 'worker.0 has said it all'; } | tr -d '\n' |
        cmp - "$dir/shown" || fail "$1: worker 0 was not shown as it is"
}

# a_full_disk_is_told_once_per_log_and_stops_nobody
run_with_small_files --server_num=1 --worker_num=2 "$dir/talks"
expect_code 0 'small files'
for i in 0 1; do
    expect_once "cannot write $dir/log/workerlog.$i: File too large"
    seq $n | cmp -n "$(wc -c <"$dir/log/workerlog.$i")" - \
        "$dir/log/workerlog.$i" || fail "the beginning of log $i"
done
grep -q 'serverlog.0:' "$dir/said" && fail "the server's log is fine"
expect_all_shown 'small files'

# a_log_that_takes_nothing_is_told
rm -rf "$dir/log"
mkdir "$dir/log"
ln -s /dev/full "$dir/log/workerlog.0"
run --server_num=1 --worker_num=2 "$dir/talks"
expect_code 0 '/dev/full'
expect_once "cannot write $dir/log/workerlog.0: No space left on device"
expect_all_shown '/dev/full'
{ seq $n; echo 'worker.1 has said it all'; } |
    cmp - "$dir/log/workerlog.1" || fail "the log of worker 1"

# what_is_written_last_is_in_the_log_and_before_the_failure
program loud <<'P'
[ "$me" = worker.0 ] || exit 0
seq 100000
echo 'last words' >&2
exit 4
P
rm -rf "$dir/log"
run --server_num=1 --worker_num=1 "$dir/loud"
expect_code 4 'a loud failure'
{ seq 100000; echo 'last words'; } | cmp - "$dir/log/workerlog.0" ||
    fail "the log of a loud failure"
expect_said '    last words'

# a_terminal_that_nobody_reads_stops_nobody
program finishes <<P
[ "\$me" = worker.0 ] || exit 0
seq $n
touch "\$dir/finished"
P
mkfifo "$dir/screen"
"$fleetrun" --log_dir="$dir/log" --server_num=1 --worker_num=1 \
    "$dir/finishes" >"$dir/screen" 2>"$dir/said" &
launcher=$!
exec 3<"$dir/screen"
until_true 20 test -e "$dir/finished" || fail "worker 0 waits for the terminal"
seq $n | cmp - /dev/fd/3 || fail "what was shown late"
exec 3<&-
wait $launcher
code=$?
expect_code 0 'a slow terminal'

# who_closes_its_output_runs_on
program closes <<'P'
[ "$me" = worker.0 ] || exit 0
echo 'no more'
exec >/dev/null 2>&1
until [ -e "$dir/go" ]; do sleep 0.05; done
exit 5
P
rm -f "$dir/go"
start --server_num=1 --worker_num=1 "$dir/closes"
until_true 20 grep -q 'no more' "$dir/said" || fail "its only line is not shown"
touch "$dir/go"
wait $launcher
code=$?
expect_code 5 'closed output'
exit $failed
