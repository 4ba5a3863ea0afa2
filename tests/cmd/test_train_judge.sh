#!/bin/sh
# test_train_judge.sh FLOTILLA FLEETRUN - what `flotilla train` holds out, how it
# judges that, and negatives of which a share is trained on.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

fail()
{
    echo "test_train_judge: $*" >&2
    exit 1
}

train()
{
    to=$1
    shift
    "$flotilla" train "$@" >"$to" 2>&1 || fail "train $*: $(cat "$to")"
}

refused()
{
    code=$1 said=$2
    shift 2
    "$flotilla" train "$@" >refused.txt 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "train $*: exit code $got, not $code"
    grep -qF -e "$said" refused.txt || fail "'$said' is not in: $(cat refused.txt)"
}

# value FILE NAME: of the last line of what was held out.
value()
{
    sed -n 's/^held out: //p' "$1" | tr ',' '\n' |
        awk -v name="$2" '$1 == name { print $2 }'
}

# Clicks of a user on an item, each with a bias of its own.
mkdir data
awk 'BEGIN { srand(5)
    for (u = 0; u < 50; u++) taste[u] = rand() * 2 - 1
    for (i = 0; i < 30; i++) good[i] = rand() * 2 - 1
    for (n = 0; n < 24000; n++) {
        u = int(rand() * 50); i = int(rand() * 30)
        p = 1 / (1 + exp(2.2 - taste[u] - good[i]))
        printf "%d %d:1 %d:1\n", rand() < p, u, 50 + i
    }
}' >all.txt
split -n l/6 all.txt data/part-
model="deepfm --fields 2 --data data --learning-rate 0.01 --batch 200 --seed 3"

# a_share_is_held_out_and_never_trained_on
train share.txt $model --split 0.75
trained=$(sed -n 's/^epoch 1 of 1: \([0-9]*\) samples.*/\1/p' share.txt)
held_out=$(sed -n 's/^held out: \([0-9]*\) samples.*/\1/p' share.txt)
[ "$((trained + held_out))" = 24000 ] || fail "$(cat share.txt)"
[ "$trained" -gt 17600 ] && [ "$trained" -lt 18400 ] || fail "$(cat share.txt)"
"$flotilla" data split --parts train=0.75,test=0.25 -o '{}.txt' all.txt >told.txt
[ "$(wc -l <train.txt)" = "$trained" ] || fail "data split has other parts"
train files.txt deepfm --fields 2 --data train.txt --test test.txt \
    --learning-rate 0.01 --batch 200 --seed 3
[ "$(sed -n 's/^held out: \([0-9]*\) samples.*/\1/p' files.txt)" = "$held_out" ] ||
    fail "$(cat files.txt)"

# metrics_are_those_of_eval
metrics=auc,logloss,rmse,calibration,accuracy,precision@0.15,recall@0.15
train judged.txt $model --split 0.75 --metrics $metrics --infer model --epochs 2
"$flotilla" eval model --data test.txt --format libsvm:label=ids \
    --slots 'label:u64:1 ids:u64:2 values:float:2' --metrics $metrics >eval.txt ||
    fail "eval"
while read -r name expected; do
    echo "$(value judged.txt "$name") $expected" | awk '
        { d = $1 - $2; exit !(NF == 2 && d < 1e-4 && d > -1e-4) }' ||
        fail "$name is not $expected in $(cat judged.txt)"
done <eval.txt

# three_workers_judge_as_one_does: nothing is learnt at a rate of 0
still="--learning-rate 0 --optimizer sgd --split 0.75 --metrics $metrics"
train one.txt deepfm --fields 2 --data "$dir/data" --batch 200 --seed 3 $still
"$fleetrun" --server_num=1 --worker_num=3 --log_dir=logs "$flotilla" train \
    deepfm --fields 2 --data "$dir/data" --batch 200 --seed 3 --mode async \
    $still >fleet.txt 2>&1 || fail "$(cat fleet.txt logs/*)"
for name in $(echo $metrics | tr ',' ' '); do
    one=$(value one.txt "$name")
    [ -n "$one" ] && [ "$one" = "$(value logs/workerlog.0 "$name")" ] ||
        fail "$name: one $(cat one.txt) three $(cat logs/workerlog.0)"
done

# a_share_of_the_negatives_gives_chances_of_all_records
train few.txt $model --split 0.75 --epochs 6 --sample-negatives 0.2 \
    --metrics logloss,calibration,auc --infer few
seen=$(sed -n 's/^epoch 1 of 6: \([0-9]*\) samples.*/\1/p' few.txt)
[ "$seen" -lt 9000 ] || fail "$seen of $trained records are seen"
[ "$(sed -n 's/^held out: \([0-9]*\) samples.*/\1/p' few.txt)" = "$held_out" ] ||
    fail "negatives are held out: $(cat few.txt)"
value few.txt calibration | awk '{ exit !($1 > 0.9 && $1 < 1.1) }' ||
    fail "the chances are not those of all records: $(cat few.txt)"
"$flotilla" eval few --data test.txt --format libsvm:label=ids \
    --slots 'label:u64:1 ids:u64:2 values:float:2' --metrics calibration >eval.txt ||
    fail "eval of few"
awk '{ exit !($2 > 0.9 && $2 < 1.1) }' eval.txt ||
    fail "the saved model has other chances: $(cat eval.txt)"

# what_makes_no_sense_is_refused
refused 2 "give one of them" $model --split 0.8 --test test.txt
refused 2 "a share between 0 and 1" $model --split 1
refused 2 "--key ids of what?" $model --key ids
refused 2 "--metrics of what?" $model --metrics auc
refused 2 "did you mean auc?" $model --split 0.8 --metrics aux
refused 2 "above 0" $model --sample-negatives 0
refused 1 "no slot called nobody" $model --split 0.8 --metrics gauc:nobody
refused 1 "is none of the slots that are read" $model --split 0.8 --key nobody
echo 'a b c a b c' >words
"$flotilla" data vocab -o vocab --min-count 0 words 2>told.txt || fail "vocab"
refused 1 "has no prediction" word2vec --data words --vocab vocab --test words \
    --metrics auc
refused 1 "--sample-negatives could not be corrected" word2vec --data words \
    --vocab vocab --sample-negatives 0.5
exit 0
