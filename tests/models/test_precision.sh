#!/bin/sh
# test_precision.sh FLOTILLA FLEETRUN MADE - the built-in models learn as much with
# products in bf16 as with f32, from small data sets that are made here (MADE has
# lines of each kind). One thread and one seed, so that nothing else differs. lr, mf
# and word2vec have no products. One of them as a job, in all modes with servers.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
. "$3"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

# measured LOG METRIC: that of the line about what was held out.
measured()
{
    sed -n "s/^held out: .*$2 \([0-9.]*\).*/\1/p" "$1"
}

# train PRECISION ARGUMENTS: writes down what is said.
train()
{
    precision=$1
    shift
    "$flotilla" train "$@" --data data --test test --threads 1 --seed 1 \
        --set precision="$precision" >"$precision.txt" 2>&1 && return
    echo "FAIL train $* with $precision ends with $?"
    cat "$precision.txt"
    failed=1
}

# alike METRIC LEAST NAME ARGUMENTS: both reach so much, and are not far apart.
alike()
{
    metric=$1 least=$2
    shift 2
    for p in f32 bf16; do
        train $p "$@"
    done
    grep -q 'precision' bf16.txt || {
        echo "FAIL train $*: nothing is said of bf16"
        failed=1
    }
    awk -v what="$*, $metric" -v least="$least" \
        -v a="$(measured f32.txt "$metric")" \
        -v b="$(measured bf16.txt "$metric")" 'BEGIN {
        apart = a > b ? a - b : b - a
        bad = a == "" || b == "" || a < least || b < least || apart > 0.02
        printf "%s%s: f32 %s, bf16 %s\n", bad ? "FAIL " : "", what, a, b
        exit bad
    }' || failed=1
}

# job MODE LEAST ARGUMENTS: servers see f32, and workers learn so much.
job()
{
    mode=$1 least=$2
    shift 2
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir="$mode" \
        "$flotilla" train "$@" --mode "$mode" --data data --test test \
        --set precision=bf16 >job.txt 2>&1 || {
        echo "FAIL train $* in mode $mode ends with $?"
        tail -n 20 job.txt "$mode"/*
        failed=1
    }
    awk -v what="$* in mode $mode" -v least="$least" \
        -v auc="$(measured "$mode/workerlog.0" AUC)" 'BEGIN {
        bad = auc == "" || auc < least
        printf "%s%s: bf16 %s\n", bad ? "FAIL " : "", what, auc
        exit bad
    }' || failed=1
}

# of KIND: lines to train on, and some of them to be tested with.
of()
{
    make "$1" 4000 >data
    head -n 500 data >test
}

"$flotilla" datagen --lines 6000 --out data 2>/dev/null
"$flotilla" datagen --lines 2000 --first 9000 --out test 2>/dev/null
alike AUC 0.55 ctr_dnn --hidden 64 --batch 50
for m in sync half_async async geo; do
    job $m 0.6 ctr_dnn --hidden 64 --batch 50
done
of adult
alike AUC 0.85 wide_deep --hidden 32 --epochs 3
of libfm
alike AUC 0.9 deepfm --hidden 32 --epochs 4
of sessions
alike recall@20 0.9 gru4rec --items 50 --width 16 --hidden 16 --batch 20
alike 'pair accuracy' 0.8 ssr --items 50 --width 16 --hidden 16 --batch 20
of tagged
alike accuracy 0.8 tagspace --items 4 --hidden 50 --negatives 3
of news
alike 'pair accuracy' 0.8 multiview_simnet --width 16 --hidden 16 --batch 20
exit $failed
