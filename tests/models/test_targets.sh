#!/bin/sh
# test_targets.sh FLOTILLA ROOT LENGTH - the built-in models reach what they
# should on public data: `short` once and on a part, `long` over three seeds, to
# the figures of docs/models.md. The data lies where MODEL_DATA says, or beside
# the sources (../shared/data); where there is none, nothing is tested.
set -u
flotilla=$(realpath "$1")
root=$(realpath "$2")
length=$3
data=${MODEL_DATA:-$root/../shared/data}
[ -d "$data" ] || {
    echo "no data in $data: MODEL_DATA names another directory"
    exit 77
}
data=$(realpath "$data")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

# cut_data NAME: its parts, to train on and to test with.
cut_data()
{
    "$root/tools/model-data" "$1" "$data" "$1" || exit 1
}

# keep NAME TRAIN TEST: so many lines, those nearest to one another in time.
keep()
{
    tail -n "$2" "$1/train" >"$1/cut" && mv "$1/cut" "$1/train"
    head -n "$3" "$1/test" >"$1/cut" && mv "$1/cut" "$1/test"
}

# train SEED DATA METRIC ARGUMENTS: prints the metric of what was held out.
train()
{
    seed=$1 set=$2 metric=$3
    shift 3
    "$flotilla" train "$@" --data "$set/train" --test "$set/test" --threads 2 \
        --seed "$seed" >said 2>&1 || cat said >&2
    sed -n "s/^held out: .*$metric \([0-9.]*\).*/\1/p" said
}

# target LEAST DATA METRIC MODEL ARGUMENTS: no seed gives less.
target()
{
    least=$1
    shift
    began=$(date +%s)
    for seed in $seeds; do
        train "$seed" "$@"
    done >values
    awk -v what="$3: $2" -v least="$least" -v n="$(echo $seeds | wc -w)" \
        -v seconds=$(($(date +%s) - began)) '
    { sum += $1; if (NR == 1 || $1 < lo) lo = $1; if ($1 > hi) hi = $1 }
    END {
        mean = NR ? sum / NR : 0
        bad = NR != n || !(lo >= least)
        printf "%s%s %.4f (%.4f to %.4f), at least %s, %d s\n",
            bad ? "FAIL " : "", what, mean, lo, hi, least, seconds
        exit bad
    }' values || failed=1
}

case $length in
short)
    seeds=1
    cut_data criteo
    target 0.725 criteo AUC ctr_dnn --format multislot --batch 100 \
        --learning-rate 0.0003
    cut_data adult
    target 0.905 adult AUC wide_deep --epochs 2
    cut_data frappe
    target 0.915 frappe AUC deepfm --learning-rate 0.0003 --epochs 2
    cut_data diginetica
    target 0.70 diginetica 'pair accuracy' ssr --epochs 2
    keep diginetica 15000 2000
    target 0.03 diginetica recall@20 gru4rec --learning-rate 0.03
    cut_data stackoverflow
    target 0.40 stackoverflow accuracy tagspace
    cut_data ag_news
    target 0.60 ag_news 'pair accuracy' multiview_simnet --epochs 2
    ;;
long)
    seeds='1 2 3'
    cut_data criteo
    target 0.738 criteo AUC ctr_dnn --format multislot --batch 100 \
        --learning-rate 0.0003
    cut_data adult
    target 0.913 adult AUC wide_deep --learning-rate 0.0003 --epochs 8
    cut_data frappe
    target 0.932 frappe AUC deepfm --optimizer sgd --learning-rate 0.2 \
        --epochs 20
    cut_data diginetica
    target 0.15 diginetica recall@20 gru4rec --learning-rate 0.03
    target 0.80 diginetica 'pair accuracy' ssr --epochs 8
    cut_data stackoverflow
    target 0.65 stackoverflow accuracy tagspace --epochs 5
    cut_data ag_news
    target 0.72 ag_news 'pair accuracy' multiview_simnet --epochs 5
    ;;
esac
exit $failed
