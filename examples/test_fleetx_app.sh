#!/bin/sh
# test_fleetx_app.sh FLEETX_APP FLOTILLA FLEETRUN - each step's loss is told, by
# one process and by the workers of a job; flags change what they say.
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

mkdir train_data
for i in 0 1 2 3; do
    "$flotilla" datagen --lines 2000 --first $((i * 2000)) \
        --out train_data/part-$i 2>/dev/null || fail "no data"
done

# steps FILE... - how many losses were told.
steps()
{
    cat "$@" | grep -c '^epoch [0-9]* step [0-9]* loss [0-9.]*$'
}

"$program" >alone.txt 2>&1 || fail "alone it ends with $?"
[ "$(steps alone.txt)" -eq 16 ] || fail "8000 records are not 16 steps of 500"
"$program" --epochs=2 --batch_size=1000 --lr=0.01 --decay=0.5 >more.txt 2>&1 ||
    fail "with flags it ends with $?"
[ "$(steps more.txt)" -eq 16 ] || fail "2 epochs of 8 steps are not 16"

for a_sync in true false; do
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir=logs \
        "$program" --a_sync=$a_sync --batch_size=200 >job.txt 2>&1 ||
        fail "a_sync=$a_sync ends with $?"
    # A worker's last batch may be short.
    n=$(steps logs/workerlog.0 logs/workerlog.1)
    [ "$n" -ge 40 ] && [ "$n" -le 42 ] || fail "a_sync=$a_sync: $n steps, not 40"
done

for flag in --model=ctr_cnn --epoch=2 data; do
    "$program" $flag >refused.txt 2>&1
    [ $? -eq 2 ] || fail "$flag is not refused"
done
"$program" --data=nowhere >refused.txt 2>&1 && fail "a missing folder is taken"
grep -q nowhere refused.txt || fail "the missing folder is not named"
exit 0
