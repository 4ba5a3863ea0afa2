#!/bin/sh
# test_launch_metrics.sh FLEETRUN FLOTILLA MEMBER - the processes of a job for
# Prometheus, while it runs.
fleetrun=$1 flotilla=$2 member=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/kit.sh"
unset FLOTILLA_JOIN_TOKEN FLOTILLA_JOIN_TOKEN_FILE
export FLOTILLA_RUNTIME_DIR="$dir/run"
port=7300

# get PORT [WORDS]: what is answered there in $dir/page, and its code.
get()
{
    at=$1
    shift
    http=$(curl -s -m 20 -o "$dir/page" -w '%{http_code}' "$@" \
        "http://127.0.0.1:$at/metrics")
}

answers()
{
    get "$1" -H "Authorization: Bearer $look" && [ "$http" = 200 ] &&
        grep -q "$2" "$dir/page"
}

# expect PORT PATTERN NAMES: a page that is clean once it has the pattern.
expect()
{
    at=$1 pattern=$2
    shift 2
    until_true 30 answers "$at" "$pattern" ||
        { fail "$at answers $http: $(cat "$dir/page")"; return; }
    python3 "$here/check_metrics.py" "$dir/page" "$@" || failed=1
}

has_note()
{
    ls "$dir"/run/*.job >/dev/null 2>&1
}

FLOTILLA_METRICS=127.0.0.1:$port "$fleetrun" --log_dir="$dir/log" \
    --server_num=1 --worker_num=2 "$member" "$dir/stop" >"$dir/said" 2>&1 &
launcher=$!
until_true 20 has_note || fail "no job: $(cat "$dir/said")"
job=$("$flotilla" status --json | sed 's/.*"name":"\([^"]*\)".*/\1/')
look=$("$flotilla" look-token "$job")

# a_server_tells_of_tables_requests_and_the_job
expect $port 'flotilla_job_samples_per_second' \
    flotilla_process_info flotilla_job_step flotilla_job_members \
    flotilla_job_samples_total flotilla_job_running_seconds \
    flotilla_table_rows flotilla_table_bytes flotilla_dense_bytes
grep -q '^flotilla_job_members{state="up"} 3$' "$dir/page" ||
    fail "the members: $(cat "$dir/page")"
grep -q "job_name=\"$job\",role=\"server\",rank=\"0\"" "$dir/page" ||
    fail "who it is: $(cat "$dir/page")"

# every_worker_has_a_port_behind_those_of_the_servers
for rank in 0 1; do
    expect $((port + 1 + rank)) 'flotilla_worker_loss 0.5' \
        flotilla_worker_samples_total flotilla_worker_sent_bytes_total \
        flotilla_worker_wait_seconds_total flotilla_worker_auc
    grep -q "role=\"worker\",rank=\"$rank\"" "$dir/page" ||
        fail "worker $rank: $(cat "$dir/page")"
done

# who_does_not_show_the_look_token_learns_nothing
get $port
[ "$http" = 401 ] && ! grep -q flotilla_ "$dir/page" ||
    fail "without a token: $http $(cat "$dir/page")"
http=$(curl -s -m 20 -o /dev/null -w '%{http_code}' -H \
    "Authorization: Bearer $look" "http://127.0.0.1:$port/other")
[ "$http" = 404 ] || fail "another page: $http"
http=$(curl -s -m 20 -o /dev/null -w '%{http_code}' -X POST -d x -H \
    "Authorization: Bearer $look" "http://127.0.0.1:$port/metrics")
[ "$http" = 405 ] || fail "another method: $http"

: >"$dir/stop"
wait $launcher || fail "the job ends with $?: $(cat "$dir/said")"

# a_port_that_is_taken_is_told_and_the_job_runs
: >"$dir/stop"
run --server_num=1 --worker_num=1 env FLOTILLA_METRICS=no_port "$member" \
    "$dir/stop"
expect_code 0 'a place that is none'
grep -q 'is not seen by Prometheus: setting metrics' "$dir"/log/serverlog.0 ||
    fail "nothing is said: $(cat "$dir"/log/serverlog.0)"
FLOTILLA_METRICS=0.0.0.0:$port "$flotilla" server --servers 127.0.0.1:7303 \
    --rank 0 --trainers 1 --set connect_timeout_ms=100 >"$dir/said" 2>&1
expect_said 'is beyond the loopback'

exit $failed
