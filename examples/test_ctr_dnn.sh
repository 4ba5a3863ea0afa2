#!/bin/sh
# test_ctr_dnn.sh CTR_DNN FLOTILLA FLEETRUN - generated logs: alone and as a job
# the model learns, and the last line counts all workers.
set -u
program=$(realpath "$1")
flotilla=$(realpath "$2")
fleetrun=$(realpath "$3")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "FAIL $*"
    tail -n 20 ./*.txt logs/* 2>/dev/null
    exit 1
}

mkdir train test
"$flotilla" datagen --lines 40000 --seed 5 --out log 2>made.txt ||
    fail "no data"
split -n l/8 log train/part-
"$flotilla" datagen --lines 4000 --seed 5 --first 40000 \
    --out test/part-0 2>made.txt || fail "no test data"

# learnt FILE - the last line has an AUC that is no guess: with 4,000 lines one in
# a million of these is above 0.55, and async of slow processes learns little more.
learnt()
{
    sed -n 's/^[0-9]* samples\/s, AUC on held-out clicks \(0\.[0-9]*\)$/\1/p' \
        "$1" | awk '{ auc = $1 } END { exit !(auc > 0.55 && auc < 0.85) }' ||
        fail "$1: no last line, or nothing was learnt"
}

"$program" train test 1 >alone.txt 2>&1 || fail "alone it ends with $?"
learnt alone.txt

# Two workers, and one file to be examined on: one of them has none.
for mode in async sync; do
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir=logs \
        "$program" train test 1 $mode >job.txt 2>&1 || fail "$mode ends with $?"
    learnt logs/workerlog.0
    grep -q "AUC on" logs/workerlog.1 && fail "both workers tell the end"
done

"$program" nowhere test 1 >refused.txt 2>&1 && fail "a missing folder is taken"
grep -q nowhere refused.txt || fail "the missing folder is not named"
"$program" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
