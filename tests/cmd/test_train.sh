#!/bin/sh
# test_train.sh FLOTILLA FLEETRUN - the built-in models train, alone and as a
# job; what is printed counts all workers; refusals say why.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
subject=train
. "$(dirname "$0")/kit.sh"

# job LOGS ARGUMENTS: one server, two workers.
job()
{
    logs=$1
    shift
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir="$logs" \
        "$flotilla" train "$@" >"$logs.txt" 2>&1 || {
        fail "train $* as a job ends with $?"
        tail -n 20 "$logs.txt" "$logs"/*
    }
}

# total FILE LINE SAMPLES LO HI: the line of the file has so many samples and,
# unless LO is "", an AUC between the two.
total()
{
    awk -v line="$2" -v samples="$3" -v lo="$4" -v hi="$5" '
index($0, line ": ") == 1 {
    found = 1
    if (samples && index($0, line ": " samples " samples, ") != 1)
        exit bad = 1
    if (lo != "" && !($NF > lo && $NF < hi && $(NF - 1) == "AUC"))
        exit bad = 1
}
END { exit bad || !found }' "$1" || {
        fail "$1 has no good line '$2'"
        cat "$1"
    }
}

mkdir train test
"$flotilla" datagen --lines 40000 --out log 2>/dev/null || fail "no data"
split -n l/8 log train/part-
"$flotilla" datagen --lines 4000 --first 40000 --out test/part-0 2>/dev/null

# ctr_dnn_alone
"$flotilla" train ctr_dnn --data train --test test --epochs 2 --batch 250 \
    --threads 2 >alone.txt 2>&1 || { fail "alone it ends with $?"; cat alone.txt; }
total alone.txt "epoch 1 of 2" 40000 0.55 0.8
total alone.txt "epoch 2 of 2" 40000 0.6 0.95
total alone.txt "held out" 4000 0.6 0.8

# ctr_dnn_as_a_job
for mode in async sync; do
    job $mode ctr_dnn --mode $mode --data train --test test --batch 200
    total $mode/workerlog.0 "epoch 1 of 1" 40000 0.5 0.8
    total $mode/workerlog.0 "held out" 4000 0.6 0.8
    grep -q "^held out" $mode/workerlog.1 && fail "both workers tell the end"
done
job geo ctr_dnn --mode geo --data train \
    --strategy geo_sgd_need_push_nums=20
total geo/workerlog.0 "epoch 1 of 1" 40000 0.5 0.8

# a_job_saves_its_model_and_others_begin_with_it
job saving ctr_dnn --mode sync --data train --batch 200 --save "$dir/model"
"$flotilla" model verify model >verified 2>&1 ||
    fail "the model of a job: $(cat verified)"
job loading ctr_dnn --mode async --data train --batch 200 --load "$dir/model" \
    --save "$dir/model"
total loading/workerlog.0 "epoch 1 of 1" 40000 0.5 0.95
"$flotilla" train ctr_dnn --data test --load model >home.txt 2>&1 ||
    fail "one process does not load the model of a job: $(cat home.txt)"
"$fleetrun" --server_num=1 --worker_num=1 --log_dir=other "$flotilla" train \
    ctr_dnn --data test --load "$dir/model" --optimizer sgd >other.txt 2>&1 &&
    fail "a job takes a model with another optimizer"
cat other.txt other/* | grep -q "does not fit the program" ||
    fail "a job does not say that it does not fit: $(cat other.txt other/*)"
"$fleetrun" --server_num=2 --worker_num=1 --log_dir=part "$flotilla" train \
    ctr_dnn --data test --load "$dir/model" --optimizer sgd --load-state new \
    >part.txt 2>&1 ||
    fail "a job takes no part of a model: $(cat part.txt part/*)"
"$fleetrun" --server_num=1 --worker_num=1 --log_dir=delta "$flotilla" train \
    ctr_dnn --data test --save "$dir/model" --save-kind delta >delta.txt 2>&1 &&
    fail "a job saves a delta at its end"
cat delta.txt delta/* | grep -q "a job is saved whole at its end" ||
    fail "a job does not say what it saves: $(cat delta.txt delta/*)"

# ctr_dnn_from_another_format
"$flotilla" datagen --lines 4000 --format multislot --out slots 2>/dev/null
"$flotilla" train ctr_dnn --data slots --format multislot >slots.txt 2>&1 ||
    fail "multislot ends with $?: $(cat slots.txt)"
total slots.txt "epoch 1 of 1" 4000 0.4 0.8

# word2vec
awk 'BEGIN {
    for (i = 0; i < 2000; i++)
        print "the king and the queen live in a castle number " i % 7 \
            " while a man and a woman work in the field"
}' >words
split -n l/4 words text-
"$flotilla" data vocab -o vocab 'text-*' 2>/dev/null || fail "no vocabulary"
for form in pair shared network; do
    "$flotilla" train word2vec --data 'text-*' --vocab vocab --epochs 2 \
        --width 16 --loss $form --threads 2 >w2v.txt 2>&1 ||
        fail "word2vec, loss $form: $(cat w2v.txt)"
    awk '/^epoch/ { sub(/.*loss /, ""); loss[++n] = $0 }
END { exit !(n == 2 && loss[2] < loss[1] && loss[1] < 4.2) }' w2v.txt ||
        fail "word2vec, loss $form, does not learn: $(cat w2v.txt)"
done

# a_rate_that_has_fallen_to_zero_changes_nothing_any_more
for epochs in 1 2; do
    "$flotilla" train word2vec --data 'text-*' --vocab vocab --width 16 \
        --epochs $epochs --end-rate 0 --decay-steps 5 --save fell$epochs \
        >fell.txt 2>&1 || fail "a rate that falls: $(cat fell.txt)"
done
"$flotilla" model diff fell1 fell2 >fell.txt 2>&1 ||
    fail "a rate of zero has changed the model: $(cat fell.txt)"

for mode in sync async geo; do
    job w2v-$mode word2vec --mode $mode --data 'text-*' --vocab vocab --width 16
    total w2v-$mode/workerlog.0 "epoch 1 of 1" "" "" ""
done

# numbers_that_are_not_finite_end_the_job_and_restarts_do_not_hide_it
timeout -k 5 100 "$fleetrun" --log_dir=lost --server_num=1 --worker_num=1 \
    --max_restart=3 "$flotilla" train word2vec --mode async --data 'text-*' \
    --vocab vocab --width 16 --learning-rate 1e19 >lost.txt 2>&1 &&
    fail "a job that diverges ends well"
grep -q 'worker 0 is not started again' lost.txt ||
    fail "restarts hide that it diverges: $(cat lost.txt)"

# wrong_usage_and_failures_say_why
refuse 2 "which model?"
refuse 2 "the nearest is ctr_dnn" ctr_dn --data train
refuse 2 "where is the data?" ctr_dnn
refuse 2 "did you mean --data?" ctr_dnn --dada train
refuse 2 "did you mean --learning-rate?" ctr_dnn --learning_rate 1
refuse 2 "'b' is too much" ctr_dnn b --data train
refuse 2 "needs --vocab FILE" word2vec --data train
refuse 2 "pair shared network" word2vec --data train --vocab vocab --loss f
refuse 2 "bow cnn gru" multiview_simnet --data train --encoder lstm
refuse 2 "no use for --encoder" ssr --data train --encoder gru
refuse 1 "nowhere/words" word2vec --data train --vocab nowhere/words
refuse 2 "no use for --vocab" ctr_dnn --data train --vocab vocab
refuse 2 "--epochs needs a whole number" ctr_dnn --data train --epochs 0
refuse 2 "--test-every 4 of what?" ctr_dnn --data train --test-every 4
refuse 2 "give one of them" ctr_dnn --data train --decay 0.5 --end-rate 0.1 \
    --decay-steps 9
refuse 2 "and --decay-steps" ctr_dnn --data train --end-rate 0.1
refuse 2 "and --decay-steps" ctr_dnn --data train --decay 0.1
refuse 2 "needs --decay or" ctr_dnn --data train --decay-steps 9
refuse 2 "a number of 0 or more" ctr_dnn --data train --end-rate -1 \
    --decay-steps 9
refuse 1 "nowhere" ctr_dnn --data nowhere
echo 'not a record' >strange
refuse 1 "--data has no record that could be read" ctr_dnn --data strange
refuse 1 "--test has no record that could be read" ctr_dnn --data train \
    --hidden 8 --test strange
refuse 1 "sdg" ctr_dnn --data train --optimizer sdg
refuse 1 "cpu_num" ctr_dnn --data train --set cpu_num=many
# what a job refuses is in the log of its worker
refuse_job()
{
    text=$1
    shift
    "$fleetrun" --server_num=1 --worker_num=1 --log_dir=wrong "$flotilla" \
        train "$@" >wrong.txt 2>&1 && fail "train $* as a job ends well"
    cat wrong.txt wrong/* | grep -qF -e "$text" ||
        fail "train $* as a job: '$text' is not in: $(cat wrong.txt wrong/*)"
}
refuse_job fast ctr_dnn --data train --mode fast
refuse_job min_block_size ctr_dnn --data train --strategy min_block_sise=3
TRAINING_ROLE=TRAINER PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:6189 \
    refuse 1 "PADDLE_TRAINERS_NUM" ctr_dnn --data train
exit $failed
