#!/bin/sh
# test_train_text.sh FLOTILLA FLEETRUN - a program text is a model: what a
# built-in one writes trains to the same numbers, in one process and as a job;
# parts are found or named; what is wrong is told.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
subject=train
. "$(dirname "$0")/kit.sh"

# figures LOG: of what was held out, without the speed.
figures() { sed -n 's/^held out: \([0-9]* samples\), [^,]*, /\1, /p' "$1"; }

"$flotilla" datagen --lines 2000 --out all 2>/dev/null || fail "no data"
mkdir train test
head -n 800 all >train/a
sed -n '801,1400p' all >train/b
sed -n '1401,2000p' all >test/a

# a_model_that_was_written_trains_to_the_same_numbers
"$flotilla" train ctr_dnn --hidden 16 --dump-program ctr.txt ||
    fail "--dump-program ends with $?"
set -- --data train --test test --batch 50 --learning-rate 0.003 --epochs 2
"$flotilla" train ctr_dnn --hidden 16 "$@" >built.txt 2>&1 || fail "$(cat built.txt)"
"$flotilla" train ctr.txt --format criteo "$@" --infer online >read.txt 2>&1 ||
    fail "a text ends with $?: $(cat read.txt)"
[ -n "$(figures read.txt)" ] && [ "$(figures read.txt)" = "$(figures built.txt)" ] ||
    fail "the text gives other numbers: $(cat built.txt read.txt)"
grep -q 'log loss .* AUC' read.txt || fail "clicks are not judged: $(cat read.txt)"
"$flotilla" eval online --data test --format criteo >eval.txt 2>&1 ||
    fail "what was saved for prediction: $(cat eval.txt)"

# a_job_trains_a_text
for mode in sync async geo; do
    rate='--learning-rate 0.003'
    "$fleetrun" --server_num=1 --worker_num=2 --log_dir=$mode "$flotilla" train \
        "$dir/ctr.txt" --format criteo --data train --test test --batch 50 \
        --optimizer adagrad $rate --mode $mode >$mode.txt 2>&1 ||
        fail "mode $mode ends with $?: $(tail -n 5 $mode.txt $mode/*)"
    grep -q '^held out: 600 samples, .* AUC' $mode/workerlog.0 ||
        fail "mode $mode does not judge: $(cat $mode/workerlog.0)"
done

# every_built_in_model_is_written_and_read
echo 'not a record' >strange
for m in $("$flotilla" help train | sed -n '/^Models:/,/^$/s/^  \([a-z0-9_]*\) .*/\1/p'); do
    [ $m != word2vec ] || continue # its format needs a file of words
    set -- $m --dump-program $m.txt
    # these two have no columns of their own
    [ $m != lr ] && [ $m != mf ] ||
        set -- "$@" --format 'csv:columns=label:float a:hash b:hash'
    "$flotilla" train "$@" >said 2>&1 ||
        fail "$m is not written: $(cat said)"
    "$flotilla" train $m.txt --data strange >said 2>&1
    grep -q "^training $m.txt in one process" said || fail "$m is not read: $(cat said)"
done
[ -s gru4rec.txt ] || fail "no model was written"

# settings_of_a_table_are_behind_the_line_startup
"$flotilla" train ctr_dnn --hidden 8 --ctr delta_threshold=0.25 --dump-program - >ctr2.txt
sed -n '/^startup$/,$p' ctr2.txt | grep -q 'accessor=ctr delta_threshold=0.25' ||
    fail "settings of the table are lost: $(tail -n 3 ctr2.txt)"
"$flotilla" train ctr2.txt --format criteo --data train >said 2>&1 ||
    fail "a table with settings: $(cat said)"

# a_text_of_ones_own_needs_no_more_than_its_lines
cat >linear.txt <<'TEXT'
# Which of two numbers is the larger one?
var x : f32[-1,2] data
var y : i64[-1,1] data
param w : f32[2,2] init=xavier trainable
param b : f32[2] init=constant(0) trainable
op mul (X=x, Y=w) -> (Out=xw)
op elementwise_add (X=xw, Y=b) -> (Out=logits)
op softmax (X=logits) -> (Out=prediction)
op cross_entropy (X=prediction, Label=y) -> (Y=cost)
op mean (X=cost) -> (Out=loss)
TEXT
awk 'BEGIN { for (i = 0; i < 1000; i++) { a = i * 7 % 100; b = i * 13 % 97
    print 2, a / 100, b / 100, 1, (a > b) } }' >numbers
"$flotilla" train linear.txt --data numbers --test numbers --epochs 5 \
    --learning-rate 0.1 --infer larger >said 2>&1 || fail "one's own: $(cat said)"
figures said | awk '{ exit !($NF > 0.95) }' || fail "it does not learn: $(cat said)"

# updates_of_its_own_are_kept
{
    sed 's/^param b.*/&\nvar lr : f32[1] persist/' linear.txt
    cat <<'TEXT'
op fill_constant () -> (Out=loss@GRAD) {shape=[1], value=1} @backward
op mean_grad (X=cost, Out@GRAD=loss@GRAD) -> (X@GRAD=cost@GRAD) @backward
op cross_entropy_grad (X=prediction, Label=y, Y@GRAD=cost@GRAD) -> (X@GRAD=prediction@GRAD) @backward
op softmax_grad (X=logits, Out=prediction, Out@GRAD=prediction@GRAD) -> (X@GRAD=logits@GRAD) @backward
op elementwise_add_grad (X=xw, Y=b, Out@GRAD=logits@GRAD) -> (X@GRAD=xw@GRAD, Y@GRAD=b@GRAD) @backward
op mul_grad (X=x, Y=w, Out@GRAD=xw@GRAD) -> (Y@GRAD=w@GRAD) @backward
op sgd (Param=w, Grad=w@GRAD, LearningRate=lr) -> (ParamOut=w) @optimize
op sgd (Param=b, Grad=b@GRAD, LearningRate=lr) -> (ParamOut=b) @optimize
TEXT
} >steps.txt
refuse 1 "lr has no first value" steps.txt --data numbers
cat >>steps.txt <<'TEXT'
startup
var lr : f32[1] persist
op fill_constant () -> (Out=lr) {shape=[1], value=0.5}
TEXT
"$flotilla" train steps.txt --data numbers --test numbers --epochs 6 >said 2>&1 ||
    fail "updates of its own: $(cat said)"
awk '/^epoch [0-9]* of/ { sub(/.*held out: loss /, ""); loss[++n] = $1 }
END { exit !(n == 6 && loss[6] < loss[1] && loss[6] < 0.6) }' said ||
    fail "it does not learn: $(cat said)"
split -n l/2 numbers part-
"$fleetrun" --server_num=1 --worker_num=2 --log_dir=steps "$flotilla" train \
    "$dir/steps.txt" --data 'part-*' --mode sync >steps.out 2>&1 ||
    fail "its own updates in a job: $(tail -n 5 steps.out steps/*)"
grep -q '^epoch 1 of 1: 1000 samples' steps/workerlog.0 || fail "$(cat steps/workerlog.0)"
refuse 1 "has updates of its own" steps.txt --data numbers --learning-rate 1

# what_is_not_found_is_named
sed 's/^op mean.*/&\nop reduce_sum (X=cost) -> (Out=other) {reduce_all=true}/' \
    linear.txt >two.txt
refuse 1 "is loss the loss, or other? --loss NAME says it" two.txt --data numbers
"$flotilla" train two.txt --data numbers --loss loss >said 2>&1 || fail "--loss: $(cat said)"
grep -v '^op mean' linear.txt >none.txt
refuse 1 "computes no single number that could be the loss" none.txt --data numbers
refuse 1 "has no variable z, which --loss names" linear.txt --data numbers --loss z
refuse 1 "has no variable z, which --label names" linear.txt --data numbers --label z
grep -v '^op cross\|^op mean' linear.txt >bare.txt
echo 'op mean (X=prediction) -> (Out=loss)' >>bare.txt
refuse 1 "has no prediction that --infer could save; --prediction NAME" bare.txt \
    --data numbers --infer m
"$flotilla" train bare.txt --data numbers --prediction prediction --infer m \
    >said 2>&1 || fail "--prediction: $(cat said)"

# what_is_wrong_with_a_text_is_told_with_its_line
sed 's/op softmax/op sofmax/' linear.txt >wrong.txt
refuse 1 "line 8" wrong.txt --data numbers
refuse 1 "softmax" wrong.txt --data numbers
sed 's/init=xavier//' linear.txt >wrong.txt
refuse 1 "w has no first value" wrong.txt --data numbers
{ cat linear.txt; printf 'startup\nop nothing () -> ()\n'; } >wrong.txt
refuse 1 "behind its line startup" wrong.txt --data numbers
refuse 1 "cannot read nowhere.txt" nowhere.txt --data numbers
refuse 2 "says how wide it is" linear.txt --data numbers --width 3
refuse 2 "no use for --hidden" linear.txt --data numbers --hidden 3
refuse 2 "no use for --label" gru4rec --data train --label y
refuse 2 "--dump-program trains nothing; leave --data out" ctr_dnn --data train \
    --dump-program x
refuse 2 "leave --optimizer out" ctr_dnn --optimizer sgd --dump-program x
refuse 2 "is a program text already" linear.txt --dump-program x
exit $failed
