#!/bin/sh
# test_launch_start.sh FLEETRUN FLOTILLA - options, hosts, ports, programs and what
# processes find in their environment.
fleetrun=$1 flotilla=$2
. "$(dirname "$0")/kit.sh"

program show <<'P'
env | grep -E '^(TRAINING_ROLE|PADDLE_|POD_IP|FLOTILLA_JOB|.*_proxy)' |
    sort >"$dir/env.$me"
echo "$me was called with $*"
P

value()
{
    sed -n "s/^$2=//p" "$dir/env.$1"
}

# every_process_finds_its_role_in_the_environment
http_proxy=x https_proxy=y PADDLE_TRAINER_ID=9 POD_IP=10.9.8.7 \
    run --server_num=2 --worker_num=3 "$dir/show" one 'two words'
expect_code 0 environment
for i in 0 1 2; do
    [ "$(value worker.$i TRAINING_ROLE)" = TRAINER ] || fail "role of worker $i"
    [ "$(value worker.$i PADDLE_TRAINER_ID)" = $i ] || fail "id of worker $i"
    [ -z "$(value worker.$i PADDLE_PSERVER_ID)" ] || fail "worker $i serves"
    [ "$(value worker.$i PADDLE_TRAINERS_NUM)" = 3 ] || fail "number of workers"
done
for i in 0 1; do
    [ "$(value server.$i TRAINING_ROLE)" = PSERVER ] || fail "role of server $i"
    [ "$(value server.$i PADDLE_PSERVER_ID)" = $i ] || fail "id of server $i"
    [ -z "$(value server.$i PADDLE_TRAINER_ID)" ] || fail "server $i trains"
    at=$(value server.$i POD_IP):$(value server.$i PADDLE_PORT)
    value server.$i PADDLE_PSERVERS_IP_PORT_LIST | cut -d, -f$((i + 1)) |
        grep -qx "$at" || fail "server $i is not at $at"
done
for name in PADDLE_PSERVERS_IP_PORT_LIST PADDLE_TRAINER_ENDPOINTS FLOTILLA_JOB; do
    [ "$(cat "$dir"/env.* | grep -c "^$name=")" = 5 ] || fail "$name is missing"
    [ "$(cat "$dir"/env.* | grep "^$name=" | sort -u | wc -l)" = 1 ] ||
        fail "$name differs between processes"
done
grep -qi proxy "$dir"/env.* && fail "a proxy is inherited"

# the_output_of_worker_0_is_on_the_terminal_and_all_of_it_in_logs
expect_said 'worker.0 was called with one two words'
grep -q 'worker.1 was called' "$dir/said" && fail "worker 1 is on the terminal"
for i in server.0 server.1 worker.0 worker.1 worker.2; do
    grep -qx "$i was called with one two words" \
        "$dir/log/${i%.*}log.${i#*.}" || fail "the log of $i"
done

# two_runs_are_two_jobs_unless_they_are_named
first=$(value worker.0 FLOTILLA_JOB) ports=$(value worker.0 PADDLE_PORT)
run --server_num=1 --worker_num=1 "$dir/show"
[ "$(value worker.0 FLOTILLA_JOB)" != "$first" ] || fail "one name for two jobs"
FLOTILLA_JOB=mine run --server_num=1 --worker_num=1 "$dir/show"
[ "$(value worker.0 FLOTILLA_JOB)" = mine ] || fail "the name is not kept"
[ -n "$ports" ] || fail "no port was chosen"

# a_start_port_counts_up
run --server_num=2 --worker_num=1 --start_port=7170 "$dir/show"
expect_code 0 start_port
[ "$(value worker.0 PADDLE_PSERVERS_IP_PORT_LIST)" = \
    127.0.0.1:7170,127.0.0.1:7171 ] || fail "ports of servers"
[ "$(value worker.0 PADDLE_TRAINER_ENDPOINTS)" = 127.0.0.1:7172 ] ||
    fail "port of the worker"

# a_port_in_use_is_told_before_anything_starts
listens()
{
    grep -q ":$(printf %04X "$1") .* 0A " /proc/net/tcp
}
"$flotilla" server --servers 127.0.0.1:7184 --rank 0 --trainers 1 \
    >/dev/null 2>&1 &
server=$!
until_true 20 listens 7184 || fail "nobody listens at 7184"
rm -f "$dir"/pids.*
run --server_num=2 --worker_num=1 --start_port=7183 "$dir/show"
kill $server
wait $server 2>/dev/null
expect_code 1 'port in use'
expect_said 'port 7184 of server 1 is in use'
have_begun 1 && fail "something was started"

# only_processes_of_this_machine_are_started
for ip in 127.0.0.1 127.0.0.2; do
    rm -f "$dir"/env.*
    POD_IP=$ip run --servers=127.0.0.1:7190,127.0.0.2 \
        --workers=127.0.0.1,127.0.0.2,127.0.0.2 "$dir/show"
    expect_code 0 "hosts, $ip"
    case $ip in
    127.0.0.1) list='env.server.0 env.worker.0' ;;
    127.0.0.2) list='env.server.1 env.worker.1 env.worker.2' ;;
    esac
    [ "$(cd "$dir" && echo env.*)" = "$list" ] ||
        fail "at $ip there are $(cd "$dir" && echo env.*)"
    cat "$dir"/env.* | grep -E 'ENDPOINTS|IP_PORT|JOB' | sort -u >"$dir/job.$ip"
done
cmp "$dir/job.127.0.0.1" "$dir/job.127.0.0.2" || fail "two machines, two jobs"
grep -qx PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:7190,127.0.0.2:6171 \
    "$dir/job.127.0.0.1" || fail "ports that were left out"
run --servers=192.0.2.1:6170 --workers=192.0.2.1 "$dir/show"
expect_code 1 'no host is here'
expect_said 'no process of the job is on this machine'

# launch_ps_has_its_own_options_and_numbers
mkdir "$dir/names"
ln -s "$(cd "$(dirname "$fleetrun")" && pwd)/$(basename "$fleetrun")" \
    "$dir/names/launch_ps"
rm -f "$dir"/env.*
(cd "$dir" && names/launch_ps "$dir/show" >said 2>&1) || fail "launch_ps"
[ "$(ls "$dir"/env.* | wc -l)" = 4 ] || fail "launch_ps starts not two of each"
[ -s "$dir/logs/workerlog.1" ] || fail "launch_ps has no logs"
run --endpoints=127.0.0.1:7195 --worker_num=1 --print_config=true "$dir/show"
expect_code 0 endpoints
expect_said 'server 0     127.0.0.1:7195'
run --cluster_node_ips=127.0.0.1,127.0.0.2 --node_ip=127.0.0.2 --server_num=1 \
    --worker_num=2 --start_port=7200 "$dir/show"
expect_code 0 cluster_node_ips
[ "$(value worker.2 PADDLE_PSERVERS_IP_PORT_LIST)" = \
    127.0.0.1:7200,127.0.0.2:7200 ] || fail "servers of nodes"
[ "$(value worker.3 PADDLE_PORT)" = 7202 ] || fail "port of worker 3"

# what_cannot_be_run_is_refused_with_the_reason
refuse()
{
    want=$1 text=$2
    shift 2
    rm -f "$dir"/pids.*
    run "$@"
    expect_code "$want" "$*"
    expect_said "$text"
    have_begun 1 && fail "$*: something was started"
}
one='--server_num=1 --worker_num=1'
echo 'not a program' >"$dir/plain"
refuse 2 'which program?' $one
refuse 2 '--server_num is missing' --run_mode=ps --worker_num=2 "$dir/show"
refuse 2 '--worker_num is missing' "$dir/show"
refuse 2 'did you mean --server_num?' --sever_num=1 "$dir/show"
refuse 2 'from 1 to 10000' --server_num=none "$dir/show"
refuse 2 'is there twice' $one --worker_num=2 "$dir/show"
refuse 2 '--http_port is not taken' --http_port=1 "$dir/show"
refuse 2 '--heter_workers is not taken' --heter_workers=a "$dir/show"
refuse 2 '--elastic_server is not taken' --elastic_server=a "$dir/show"
refuse 2 'start nothing at all' $one --print_config=false "$dir/show"
refuse 2 'contradicts --server_num' $one --run_mode=collective "$dir/show"
refuse 2 'there are no heterogeneous workers' $one --run_mode=ps-heter \
    "$dir/show"
refuse 2 '--servers names 2' --servers=127.0.0.1,127.0.0.2 --server_num=3 \
    --worker_num=1 "$dir/show"
refuse 2 'have the same address' --servers=127.0.0.1:1,127.0.0.1:1 \
    --worker_num=1 "$dir/show"
refuse 1 'No such file' $one "$dir/missing"
refuse 1 'in no folder of PATH' $one no-such-program-anywhere
refuse 1 'chmod +x' $one "$dir/plain"

# a_script_of_python_needs_no_first_line
if command -v python3 >/dev/null; then
    echo 'import os, sys; print(os.environ["TRAINING_ROLE"], sys.argv[1:])' \
        >"$dir/script.py"
    run $one "$dir/script.py" a b
    expect_code 0 python
    expect_said "TRAINER ['a', 'b']"
fi
exit $failed
