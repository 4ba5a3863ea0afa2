#!/bin/sh
# test_modes.sh FLOTILLA FLEETRUN MADE - every built-in model learns from a small
# data set that is made here (MADE), alone and as a job in every mode, and what a job
# prints counts all of its workers.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
. "$3"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

fail()
{
    echo "FAIL $*"
    failed=1
}

# measured LOG METRIC: that of the line about what was held out.
measured()
{
    sed -n "s/^held out: .*$2 \([0-9.]*\).*/\1/p" "$1"
}

# above VALUE LEAST WHAT
above()
{
    awk -v x="$1" -v least="$2" 'BEGIN { exit !(x != "" && x >= least) }' ||
        fail "$3: '$1' is not $2 or more"
}

# learns KIND RECORDS METRIC LEAST NAME ARGUMENTS: alone it reaches so much.
learns()
{
    kind=$1 n=$2 metric=$3 least=$4
    shift 4
    mkdir -p "$kind"
    make "$kind" "$n" >all
    split -n l/4 all "$kind/part-"
    head -n 500 all >"$kind.test"
    "$flotilla" train "$@" --data "$kind" --test "$kind.test" --threads 2 \
        >alone.txt 2>&1 || { fail "train $* ends with $?"; cat alone.txt; }
    above "$(measured alone.txt "$metric")" "$least" "train $*, $metric"
}

# job MODE RECORDS ARGUMENTS: it ends well, counts the records of both workers
# and tells the metric once.
job()
{
    mode=$1 records=$2
    shift 2
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir="$mode" \
        "$flotilla" train "$@" --mode "$mode" --data "$kind" \
        --test "$kind.test" >job.txt 2>&1 || {
        fail "train $* in mode $mode ends with $?"
        tail -n 20 job.txt "$mode"/*
    }
    grep -q "^epoch 1 of [0-9]*: $records samples" "$mode/workerlog.0" ||
        fail "train $* in mode $mode does not count $records records"
    above "$(measured "$mode/workerlog.0" "$metric")" 0.001 \
        "train $* in mode $mode, $metric"
    grep -q "^held out" "$mode/workerlog.1" &&
        fail "train $* in mode $mode: both workers tell the end"
}

# everywhere KIND RECORDS METRIC LEAST NAME ARGUMENTS: the same in all modes.
everywhere()
{
    learns "$@"
    shift 4
    seen=$(sed -n 's/^epoch 1 of [0-9]*: \([0-9]*\) samples.*/\1/p' alone.txt)
    for m in sync half_async async geo; do
        job $m "$seen" "$@"
    done
}

everywhere adult 4000 AUC 0.85 wide_deep --hidden 16 --epochs 3
everywhere libfm 4000 AUC 0.9 deepfm --hidden 16 --epochs 4
everywhere sessions 4000 recall@20 0.9 gru4rec --items 50 --width 16 \
    --hidden 16 --batch 20
for loss in bpr sampled; do
    learns sessions 4000 'recall@20 among drawn ones' 0.9 gru4rec --items 50 \
        --width 16 --loss $loss --negatives 40 --batch 20
done
everywhere sessions 4000 'pair accuracy' 0.8 ssr --items 50 --width 16 \
    --hidden 16 --batch 20
everywhere tagged 4000 accuracy 0.8 tagspace --items 4 --hidden 50 \
    --negatives 3
everywhere news 4000 'pair accuracy' 0.8 multiview_simnet --width 16 \
    --hidden 16 --batch 20
for encoder in cnn gru; do
    learns news 4000 'pair accuracy' 0.8 multiview_simnet --width 16 \
        --hidden 16 --batch 20 --encoder $encoder
done
exit $failed
