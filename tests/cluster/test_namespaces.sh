#!/bin/sh
# test_namespaces.sh MEMBER FLEETRUN CABLE - a job over three hosts, which are
# network namespaces on a bridge: two servers on the first, a worker on each of
# the others. The result is that of one host, also through a long cable and
# after a cable was out for a while; when it stays out, everybody ends and says
# who was lost.
. "$(dirname "$0")/kit.sh"
member=$1
fleetrun=$2
cable=$3
servers=10.77.0.1:6170,10.77.0.1:6171
make_network

make_host serving 10.77.0.1
make_host first 10.77.0.2
make_host second 10.77.0.3

# start HOST NAME COMMAND...: its process is pid_NAME, all it says in NAME.txt.
start()
{
    at=$1
    name=$2
    shift 2
    # Nobody waits longer than this for anybody.
    timeout -k 5 100 ip netns exec "$at" "$@" >"$name.txt" 2>&1 &
    eval "pid_$name=$!"
}

# job STEPS PAUSE_MS: members are told their roles.
job()
{
    # What the job before has said is no sign of this one.
    rm -f s0.txt s1.txt w0.txt w1.txt
    start serving s0 "$member" "$1" "$2" server 0 2 $servers
    start serving s1 "$member" "$1" "$2" server 1 2 $servers
    start first w0 "$member" "$1" "$2" worker 0 2 $servers
    start second w1 "$member" "$1" "$2" worker 1 2 $servers
}

# ends NAME CODE WHAT
ends()
{
    eval "wait \$pid_$1"
    code=$?
    [ $code -eq "$2" ] && return
    fail "$3: $1 ends with $code, not $2:"
    tail -n 20 "$1.txt"
}

result()
{
    sed -n 's/^worker 0 done //p' "$1"
}

# expect_same FILE WHAT
expect_same()
{
    [ -n "$(result "$1")" ] && [ "$(result "$1")" = "$wanted" ] ||
        fail "$2: '$(result "$1")', but on one host '$wanted'"
}

all_end_well()
{
    for one in w0 w1 s0 s1; do
        ends $one 0 "$1"
    done
    expect_same w0.txt "$1"
    expect_none_left member
}

await_step()
{
    until_true 40 has w0.txt "step $1 " || fail "worker 0 is not at step $1"
}

# one_host LOGS: what is wanted of the others.
one_host()
{
    "$fleetrun" --server_num=2 --worker_num=2 --log_dir="$1" "$member" 150 0 \
        >one.txt 2>&1 || fail "one host: $(cat one.txt)"
    wanted=$(result "$1/workerlog.0")
    [ -n "$wanted" ] || exit 1
}

# values_that_travel_as_bf16_are_the_same_over_three_hosts
export FLOTILLA_WIRE_PULL=bf16 FLOTILLA_WIRE_PUSH=bf16
one_host rounded
rounded=$wanted
job 150 0
all_end_well 'bf16 over three hosts'
unset FLOTILLA_WIRE_PULL FLOTILLA_WIRE_PUSH
one_host logs
[ "$wanted" != "$rounded" ] || fail "nothing was rounded"

# members_with_roles_of_their_own_train_over_three_hosts
job 150 0
all_end_well 'three hosts'

# the_same_command_on_every_host_starts_what_is_its_own
for one in serving first second; do
    start $one $one "$fleetrun" --servers=$servers \
        --workers=10.77.0.2,10.77.0.3 --log_dir=logs.$one "$member" 150 0
done
for one in first second serving; do
    ends $one 0 'the launcher on every host'
done
expect_same logs.first/workerlog.0 'the launcher on every host'
[ "$(echo logs.*/*log.* | wc -w)" -eq 4 ] || fail "logs: $(echo logs.*/*)"
expect_none_left member fleetrun

# workers_alone_come_to_the_same
for one in first second; do
    start $one $one "$fleetrun" --ips=10.77.0.2,10.77.0.3 --log_dir=alone.$one \
        "$member" 150 0
done
for one in first second; do
    ends $one 0 'workers alone'
done
expect_same alone.first/workerlog.0 'workers alone'
expect_none_left member fleetrun

# a_cable_that_is_out_for_5_s_does_not_harm
export FLOTILLA_PING_MS=200 FLOTILLA_SUSPECT_MS=1000
pull()
{
    job 150 20
    await_step 10
    ip link set "to_$1" down
    sleep 5
    [ "$(running member)" -eq 4 ] || fail "somebody ended without a cable"
    ip link set "to_$1" up
}
pull second
all_end_well 'the cable of worker 1 is back'
expect s0.txt 'trainer 1 (10.77.0.3.*silent'
expect s0.txt 'trainer 1 .* is back'
pull serving
all_end_well 'the cable of the servers is back'
for one in w0 w1; do
    expect $one.txt 'server 0 (10.77.0.1:6170) is silent'
    expect $one.txt 'server 1 (10.77.0.1:6171) is silent'
    expect $one.txt 'server 0 (10.77.0.1:6170) is back after'
done

# a_cable_that_stays_out_ends_the_job_and_the_lost_one_is_named
export FLOTILLA_RESTART_TIMEOUT_MS=3000
lose()
{
    job 100000 5
    await_step 10
    ip link set "to_$1" down
    for one in w0 w1 s0 s1; do
        ends $one 1 "$mode, without the cable of $1"
    done
    expect_none_left member
    ip link set "to_$1" up
}
for mode in sync half_async async geo; do
    export MEMBER_MODE=$mode
    lose second
    expect s0.txt 'failed.*trainer 1'
    expect w0.txt 'failed.*trainer 1'
    expect w1.txt 'failed.*server [01] at 10.77.0.1:617'
    lose serving
    expect s0.txt 'failed.*trainer [01]'
    expect w0.txt 'failed.*server [01] at 10.77.0.1:617'
    expect w1.txt 'failed.*server [01] at 10.77.0.1:617'
done
unset FLOTILLA_RESTART_TIMEOUT_MS MEMBER_MODE

# a_long_cable_changes_nothing_but_the_time
ip link add far type veth peer name near
ip link set far master hub up
ip link set near up
ip link set to_serving nomaster
"$cable" to_serving near 5 & long=$!
job 150 0
all_end_well 'a long cable'
kill $long || fail "the long cable broke"
exit $failed
