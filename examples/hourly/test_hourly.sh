#!/bin/sh
# test_hourly.sh HOURLY FLOTILLA FLEETRUN - two hours: logs come, are trained by a
# job, saved as a delta, published and scored; then a job goes on from there.
set -u
hourly=$(realpath "$1") flotilla=$(realpath "$2") fleetrun=$(realpath "$3")
publish=$(realpath "$(dirname "$0")/publish.sh")
dir=$(mktemp -d) || exit 1
job=
trap '[ -z "$job" ] || kill "$job" 2>/dev/null; rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "FAIL $*"
    cat out.txt logs/* 2>/dev/null
    exit 1
}

# hour H ITEM: logs that show items from ITEM on; the odd ones are clicked, nine
# times of ten.
hour()
{
    mkdir -p "data/$1"
    for part in 0 1 2 3; do
        awk -v first="$2" -v seed="$1$part" 'BEGIN {
            srand(seed)
            for (i = 0; i < 1000; i++) {
                shown = first + int(rand() * 50)
                print 2, first + int(rand() * 50), first + int(rand() * 50), \
                    1, shown, 1, (shown % 2 == (rand() < 0.9))
            }
        }' >"data/$1/part-$part"
    done
    touch "data/$1/done"
}

# version N: waits for it; the job must go on meanwhile.
version()
{
    while ! grep -qs "^00000$1-" model/CURRENT; do
        kill -0 "$job" 2>/dev/null || fail "the job has ended before version $1"
        sleep 0.1
    done
}

# auc HOUR: of what is online.
auc()
{
    "$flotilla" eval online --target "$target" --data "data/$1/part-*" \
        --slots 'seen:u64 shown:u64:1 label:float:1' >eval.txt 2>&1 ||
        fail "eval: $(cat eval.txt)"
    sed -n 's/^auc\t//p' eval.txt
}

# above A B: A is larger than B.
above()
{
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'
}

target=score.tmp_2
"$fleetrun" --server_num=2 --worker_num=2 --log_dir=logs "$hourly" data \
    "$dir/model" 2 >out.txt 2>&1 &
job=$!

# An hour without `done` is not touched; a second one has other items.
hour 00 1000
hour 02 2000
version 1
sh "$publish" model online >first.txt || fail "the first hour is not published"
before=$(auc 02)
above "$(auc 00)" 0.8 || fail "nothing was learnt in the first hour: $(auc 00)"

# From outside, while the job waits for its next hour.
server=$(sed -n 's/.*server 0 of 2 listens at //p' logs/* | head -n 1)
"$flotilla" model save --from "$server" --delta beside >saved.txt 2>said.txt ||
    fail "a tool cannot save: $(cat said.txt)"
grep -q 'the save is a whole one: server 0: there is no version yet' said.txt ||
    fail "a whole save is not told: $(cat said.txt)"
"$flotilla" model save --from "$server" --delta beside >saved.txt 2>said.txt ||
    fail "a tool cannot save again: $(cat said.txt)"
grep -q '"kind": *"delta"' "$(cat saved.txt)/MANIFEST.json" ||
    fail "a tool saves no delta"
"$flotilla" model save --from "$server" --delta model >saved.txt 2>said.txt ||
    fail "a tool cannot go back to the model: $(cat said.txt)"
grep -q 'is not the last one that was saved or loaded' said.txt ||
    fail "two chains in turn are not told: $(cat said.txt)"

mv data/02 data/01
version 3
wait "$job" || fail "the job"
job=
sh "$publish" model online >second.txt || fail "the second hour is not published"
grep -q '"kind": *"delta"' "online/$(cat second.txt)/MANIFEST.json" ||
    fail "the second hour is no delta"
above "$(auc 01)" 0.8 || fail "nothing was learnt in the second hour"
above "$(auc 01)" "$before" || fail "the second hour is not online"
"$flotilla" model verify online >/dev/null || fail "what is online is damaged"
[ "$(grep -c '^hour 0[01]: 4000 records' out.txt logs/* | awk -F: '
    { n += $NF } END { print n }')" -ge 2 ] || fail "an hour was not told"

# Another job goes on with it, on one server.
hour 00 3000
rm -r data/01
"$fleetrun" --server_num=1 --worker_num=1 --log_dir=logs "$hourly" data \
    "$dir/model" 1 >out.txt 2>&1 || fail "the next job"
sh "$publish" model online >third.txt || fail "the next job is not published"
above "$(auc 00)" 0.8 || fail "nothing was learnt in the third hour"

# Alone it is the same.
"$hourly" data "$dir/alone" 1 >out.txt 2>&1 || fail "one process"
"$hourly" 2>/dev/null
[ $? -eq 2 ] || fail "no arguments are not refused"
exit 0
