#!/bin/sh
# test_fifty_starts.sh MEMBER FLEETRUN - jobs of 2 servers and 3 workers, each
# of which comes up to 2 s late; several jobs at a time, 50 in all. Every job
# ends well, with the same result, and leaves nothing behind.
. "$(dirname "$0")/kit.sh"
member=$1
fleetrun=$2
jobs=50
at_a_time=5
ip link set lo up

cat >late <<F
#!/bin/sh
who=\$TRAINING_ROLE\${PADDLE_PSERVER_ID:-\$PADDLE_TRAINER_ID}
draw=\$(echo "$$ \$JOB \$who" | cksum | cut -d ' ' -f 1)
sleep "\$(awk -v draw="\$draw" 'BEGIN { print draw % 2001 / 1000 }')"
exec "$member" 10 0
F
chmod +x late

# one NUMBER: starts that job and leaves its exit code behind.
one()
{
    JOB=$1 timeout -k 5 60 "$fleetrun" --server_num=2 --worker_num=3 \
        --log_dir="logs.$1" ./late >"said.$1" 2>&1
    echo $? >"code.$1"
}

# Lanes, so that jobs begin at all times of the others.
for lane in $(seq $at_a_time); do
    for job in $(seq "$lane" $at_a_time $jobs); do
        one "$job"
    done &
done
wait

for job in $(seq $jobs); do
    code=$(cat "code.$job" 2>/dev/null)
    [ "$code" = 0 ] || fail "job $job ends with $code: $(cat "said.$job")"
done
results=$(sed -n 's/^worker [0-2] done //p' logs.*/workerlog.* | sort | uniq -c)
[ "$(echo "$results" | awk '{ print $1, $2 }')" = "150 steps=10" ] ||
    fail "results differ: $results"
expect_none_left late member fleetrun
exit $failed
