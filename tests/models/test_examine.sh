#!/bin/sh
# test_examine.sh FLOTILLA FLEETRUN - what is held out is examined while a model
# trains, and the workers of a job tell together what one process tells. The rate
# is so low that nothing is learnt: every examination of every job has to give
# the same numbers.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

fail()
{
    echo "FAIL $*"
    failed=1
}

# figures LOG: of each line about what was held out, without the speed.
figures()
{
    sed -n 's/^held out[^:]*: \([0-9]* samples\), [^,]*, /\1, /p' "$1"
}

# examined LOG LEAST WHAT: so many times at least, and always the same.
examined()
{
    figures "$1" >seen
    sort -u seen >kinds
    [ "$(grep -c '^held out at step' "$1")" -ge "$2" ] ||
        fail "$3: $(grep -c '^held out at step' "$1") examinations, not $2"
    cmp -s kinds expected || {
        fail "$3: not the figures of one process"
        diff expected kinds
    }
}

# Files of unequal length: one worker is at its end before the other.
mkdir train test
"$flotilla" datagen --lines 3000 --out all
head -n 2000 all >train/a
sed -n '2001,2600p' all >train/b
sed -n '2601,3000p' all >train/c
for i in 1 2 3 4; do
    "$flotilla" datagen --lines 200 --first $((9000 + 200 * i)) --out test/$i
done
set -- train ctr_dnn --data train --test test --test-every 4 --hidden 8 \
    --batch 50 --optimizer sgd --learning-rate 1e-30

"$flotilla" "$@" >alone.txt 2>&1 || { fail "$* ends with $?"; cat alone.txt; }
figures alone.txt | head -n 1 >expected
grep -q '^800 samples, loss .*AUC 0\.' expected ||
    fail "one process does not tell the AUC of 800 samples: $(cat alone.txt)"
[ "$(grep -c '^held out at step' alone.txt)" -eq 15 ] ||
    fail "60 batches are not examined 15 times: $(cat alone.txt)"
examined alone.txt 15 'one process'

for mode in sync half_async async geo collective; do
    servers=--server_num=1
    [ $mode != collective ] || servers=
    "$fleetrun" $servers --worker_num=2 --log_dir=$mode \
        "$flotilla" "$@" --mode $mode --threads 2 >job.txt 2>&1 || {
        fail "mode $mode ends with $?"
        tail -n 20 job.txt $mode/*
    }
    examined $mode/workerlog.0 5 "mode $mode"
    grep -q '^held out' $mode/workerlog.1 &&
        fail "mode $mode: both workers tell what was held out"
done
exit $failed
