#!/bin/sh
# test_fleet_mlp.sh FLEET_MLP FLOTILLA FLEETRUN - the same program alone, as a
# job by the environment, and as a job whose processes are told their roles.
set -u
program=$(realpath "$1")
fleetrun=$(realpath "$3")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export FLOTILLA_CONNECT_TIMEOUT_MS=20000 FLOTILLA_RESTART_TIMEOUT_MS=5000
# A step takes a fraction of a millisecond, and on a busy machine 300 of them may
# be over before gradients and parameters have travelled: their age is bounded.
export FLOTILLA_COMMUNICATOR_INDEPENDENT_RECV_THREAD=false
export FLOTILLA_COMMUNICATOR_SEND_QUEUE_SIZE=1
export FLOTILLA_COMMUNICATOR_MAX_MERGE_VAR_NUM=1

fail()
{
    echo "FAIL $*"
    tail -n 20 ./*.txt logs/* 2>/dev/null
    exit 1
}

# learnt FILE RANK - a line per step, and the cost comes down to ln 2. It need
# not fall: another worker may have begun before this one.
learnt()
{
    awk -v rank="$2" '
!/^worker_index: / { next }
{
    if ($0 !~ "^worker_index: " rank ", step" n + 0 " cost = [0-9.]+$")
        exit bad = 1
    late += n >= 200 ? $NF : 0
    n++
}
END { exit bad || n != 300 || late / 100 > 0.71 }
' "$1" || fail "$1: no 300 steps of worker $2, or the cost stays high"
}

# alone_it_is_one_process
"$program" 300 >alone.txt 2>&1 || fail "alone it ends with $?"
learnt alone.txt 0

# a_job_by_the_environment
"$fleetrun" --server_num=2 --worker_num=2 --log_dir=logs "$program" 300 \
    >fleetrun.txt 2>&1 || fail "as a job it ends with $?"
learnt logs/workerlog.0 0
learnt logs/workerlog.1 1

# a_job_whose_processes_are_told
# Should somebody have the port, the next one is tried.
port=$((10000 + $$ % 10000 * 2))
for try in 1 2 3 4 5; do
    "$program" 300 server 0 2 127.0.0.1:$port >server.txt 2>&1 & server=$!
    "$program" 300 worker 1 2 127.0.0.1:$port >worker1.txt 2>&1 & worker=$!
    "$program" 300 worker 0 2 127.0.0.1:$port >worker0.txt 2>&1; w0=$?
    wait $worker; w1=$?
    wait $server; s=$?
    grep -qi "in use\|taken" server.txt || break
    port=$((10000 + (port - 10000 + 1234) % 20000))
done
[ "$s $w0 $w1" = "0 0 0" ] ||
    fail "try $try: the server ends with $s, workers with $w0 and $w1"
learnt worker0.txt 0
learnt worker1.txt 1

"$program" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
