#!/bin/sh
# test_out_of_graph.sh OUT_OF_GRAPH - two servers and two trainers as processes:
# all end well, and the trainers have learnt.
set -u
program=$(realpath "$1")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "FAIL $*"
    cat ./*.txt
    exit 1
}

# Whoever is left alone ends soon.
export FLOTILLA_CONNECT_TIMEOUT_MS=20000 FLOTILLA_RESTART_TIMEOUT_MS=5000

# run SERVERS - starts all four and waits; their ends are in s0, s1, t0 and t1.
run()
{
    "$program" server 0 "$1" 2 >server0.txt 2>&1 & pid_s0=$!
    "$program" server 1 "$1" 2 >server1.txt 2>&1 & pid_s1=$!
    "$program" trainer 0 "$1" 2 >trainer0.txt 2>&1 & pid_t0=$!
    "$program" trainer 1 "$1" 2 >trainer1.txt 2>&1 & pid_t1=$!
    wait $pid_s0; s0=$?
    wait $pid_s1; s1=$?
    wait $pid_t0; t0=$?
    wait $pid_t1; t1=$?
}

# Below the ports that systems give away by themselves; should somebody have one
# of the two, the next ones are tried.
port=$((10000 + $$ % 10000 * 2))
for try in 1 2 3 4 5; do
    run "127.0.0.1:$port,127.0.0.1:$((port + 1))"
    grep -qi "in use\|taken" server0.txt server1.txt || break
    port=$((10000 + (port - 10000 + 1234) % 20000))
done
[ "$s0 $s1 $t0 $t1" = "0 0 0 0" ] ||
    fail "try $try: servers end with $s0 and $s1, trainers with $t0 and $t1"

for rank in 0 1; do
    sed -n "s/^trainer $rank accuracy \(0\.[0-9]*\)$/\1/p" trainer$rank.txt |
        awk '$1 > 0.9 { good = 1 } END { exit !good }' ||
        fail "trainer $rank has not learnt"
done

"$program" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
