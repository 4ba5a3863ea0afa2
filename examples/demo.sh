#!/bin/sh
# demo.sh BUILD [LINES] - a server and two workers train a click model on LINES
# of data that is made for it. All that it writes goes away with it.
set -eu
build=$(cd "$1" && pwd)
PATH=$build/cmd:$build/examples:$PATH
lines=${2:-400000}
tests=$((lines / 10))
parts=8
dir=$(mktemp -d "$build/demo.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$dir/train" "$dir/test"

# generate FOLDER LINES FIRST - parts of a log, and how good a model can get.
generate()
{
    flotilla datagen --lines "$2" --first "$3" --out "$dir/log" 2>"$dir/said" ||
        { cat "$dir/said" >&2; exit 1; }
    split -n l/$parts "$dir/log" "$dir/$1/part-"
    rm "$dir/log"
}

echo "Making a log of $lines ad views, some with a click, and $tests more that"
echo "stay hidden from the model."
generate train "$lines" 0
generate test "$tests" "$lines"
best=$(sed -n 's/.*best AUC \([0-9.]*\).*/\1/p' "$dir/said")

echo "Training on it: fleetrun --server_num=1 --worker_num=2 ctr_dnn ..."
fleetrun --server_num=1 --worker_num=2 --log_dir="$dir/logs" \
    ctr_dnn "$dir/train" "$dir/test" 1

sed -n 's/^\([0-9]*\) samples\/s, AUC on held-out clicks \([0-9.]*\)$/\1 \2/p' \
    "$dir/logs/workerlog.0" | awk -v best="$best" '
{ rate = $1; auc = $2 }
END {
    if (!rate)
        exit 1
    printf "\nA server kept the model, and two workers taught it %d ad views" \
        " a second.\n", rate
    printf "Of two hidden views, one with a click and one without, it knows" \
        " which is which\nin %.1f %% of the cases (AUC %.4f). Guessing gives" \
        " 50 %%, and as clicks are\npartly chance, no model can do better" \
        " than %.1f %% here (AUC %.4f): it learned\n%.0f %% of what there is" \
        " to know.\n", 100 * auc, auc, 100 * best, best,
        100 * (auc - 0.5) / (best - 0.5)
}'
printf '\nTry next:\n'
printf '  %-36s %s\n' "$1/cmd/flotilla doctor" "is this machine fit for more?" \
    docs/howto/raw-to-model.md "from a file of yours to a judged model" \
    docs/howto/first-distributed-run.md "the same by hand, on your own data" \
    examples/ctr_dnn.c "the program that was just run"
