#!/bin/sh
# test_launch_collective.sh FLEETRUN COLLECTIVE - jobs of workers alone come to what
# one process comes to, with the same bits on all of them and again.
fleetrun=$1 collective=$2
. "$(dirname "$0")/kit.sh"
export FLOTILLA_CONNECT_TIMEOUT_MS=30000

# job NAME WORKERS WORDS...: values go to NAME.RANK, all hashes to NAME.hashes.
job()
{
    name=$1 workers=$2
    shift 2
    rm -rf "$dir/log"
    run --worker_num="$workers" "$collective" out="$dir/$name" "$@"
    expect_code 0 "$name: $workers workers, $*"
    sed -n 's/.*done hash=//p' "$dir"/log/workerlog.* >"$dir/$name.hashes"
    [ "$(wc -l <"$dir/$name.hashes")" -eq "$workers" ] ||
        fail "$name: not all of $workers workers are done"
    [ "$(sort -u "$dir/$name.hashes" | wc -l)" -eq 1 ] ||
        fail "$name: workers differ: $(cat "$dir/$name.hashes")"
}

# near A B LIMIT: every value, as an error over max(1, |value|).
near()
{
    paste -d ' ' "$dir/$1" "$dir/$2" | awk -v limit="$3" '
        function size(v) { return v < 0 ? -v : v }
        $1 != $4 || $2 != $5 { exit odd = 1 }
        {
            e = size($3 - $6) / (size($3) > 1 ? size($3) : 1)
            worst = e > worst ? e : worst
            n++
        }
        END {
            printf "%d values, worst %g\n", n, worst
            exit odd || !n || worst > limit
        }' >"$dir/near" || fail "$1 and $2 differ: $(cat "$dir/near")"
}

# workers_equal_one_process_on_the_joined_batches
compare()
{
    limit=$1
    shift
    for workers in $all; do
        "$collective" joined="$workers" out="$dir/one" "$@" \
            >"$dir/said" 2>&1 || fail "one process: $(cat "$dir/said")"
        job many "$workers" "$@"
        near one.0 many.0 "$limit"
    done
}
all='1 2 3 4'
compare 1e-6 steps=200 net=mlp optimizer=sgd
compare 1e-6 steps=200 net=mlp optimizer=momentum rate=0.05
for rule in adagrad adam ftrl; do
    compare 2e-4 steps=200 net=mlp optimizer=$rule rate=0.01
done
all='2 3'
for net in sparse table; do
    compare 1e-6 steps=50 net=$net optimizer=sgd
    compare 2e-4 steps=50 net=$net optimizer=adam rate=0.01
done

# the_same_job_again_has_the_same_bits
job first 3 steps=50 net=table optimizer=adam rate=0.01
job second 3 steps=50 net=table optimizer=adam rate=0.01
cmp "$dir/first.hashes" "$dir/second.hashes" || fail "two runs differ"

# two_jobs_on_one_machine_do_not_meet
for i in 1 2; do
    timeout -k 5 60 "$fleetrun" --worker_num=2 --log_dir="$dir/log.$i" \
        "$collective" steps=50 net=table rate=0.$i >"$dir/said.$i" 2>&1 &
    eval "job_$i=$!"
done
for i in 1 2; do
    eval "wait \$job_$i" || fail "one of two jobs: $(cat "$dir/said.$i")"
    [ "$(sed -n 's/.*done hash=//p' "$dir"/log.$i/workerlog.* | sort -u |
        wc -l)" -eq 1 ] || fail "workers of job $i differ"
done
exit $failed
