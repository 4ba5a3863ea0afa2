#!/bin/sh
# test_train_epochs.sh FLOTILLA FLEETRUN - what is held out is judged behind each
# epoch, training ends when nothing gets better, and what is saved is the best
# epoch: in one process and in every mode of a job.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
subject=train
. "$(dirname "$0")/kit.sh"

# The AUC of what was held out: of each epoch, of the end, of the table's best.
of_epochs() { sed -n 's/^epoch [0-9]* of .*; held out: .* AUC \([0-9.]*\)$/\1/p' "$1"; }
of_end() { sed -n 's/^held out: .* AUC \([0-9.]*\)$/\1/p' "$1"; }
of_best() { sed -n 's/^ *[0-9]* .* best .* \([0-9.]*\)$/\1/p' "$1"; }

# kept LOG MODEL WHAT [NEAR]: the end tells the best of the epochs, and that is
# what the model for prediction scores with.
kept()
{
    near=${4:-0.0002}
    best=$(of_epochs "$1" | sort -n | tail -n 1)
    [ -n "$best" ] && [ "$(of_end "$1")" = "$best" ] && [ "$(of_best "$1")" = "$best" ] ||
        fail "$3: the best of $(of_epochs "$1" | tr '\n' ' ') is not the end's: $(cat "$1")"
    "$flotilla" eval "$2" --data test --format criteo >figures 2>&1
    awk -v best="$best" -v near="$near" '
$1 == "auc" { d = $2 - best; found = d < near && d > -near }
END { exit !found }' figures || fail "$3: the model is not the epoch of $best: $(cat figures)"
}

mkdir train test
"$flotilla" datagen --lines 3000 --out log 2>/dev/null || fail "no data"
split -n l/4 log train/part-
for i in 0 1; do
    "$flotilla" datagen --lines 1000 --first $((40000 + 1000 * i)) \
        --out test/part-$i 2>/dev/null
done
set -- ctr_dnn --data train --test test --batch 100 --hidden 16
rate=0.003

# one_line_has_the_training_and_what_was_held_out
"$flotilla" train "$@" --learning-rate $rate --epochs 5 --save saved --infer online >all.txt 2>log.txt ||
    fail "5 epochs end with $?: $(cat all.txt log.txt)"
[ "$(of_epochs all.txt | wc -l)" -eq 5 ] || fail "not 5 epochs: $(cat all.txt)"
grep -q '^epoch 1 of 5: 3000 samples, .* AUC .*; held out: loss .* AUC' all.txt ||
    fail "no numbers of both: $(cat all.txt)"
kept all.txt online 'one process'
# learning by heart, the last epoch is not the best
[ "$(of_end all.txt)" != "$(of_epochs all.txt | tail -n 1)" ] ||
    fail "the last epoch is the best, so nothing was tested: $(cat all.txt)"

# patience_ends_it_and_gives_the_same_best
"$flotilla" train "$@" --learning-rate $rate --epochs 90 --patience 2 --infer patient >few.txt 2>&1 ||
    fail "--patience ends with $?: $(cat few.txt)"
[ "$(of_epochs few.txt | wc -l)" -lt 20 ] || fail "--patience does not end it"
grep -q '^stopped: 2 epochs brought nothing better than epoch' few.txt ||
    fail "nothing says why it stopped: $(cat few.txt)"
kept few.txt patient '--patience'
[ "$(of_end few.txt)" = "$(of_end all.txt)" ] ||
    fail "--patience gives another best: $(of_end few.txt), $(of_end all.txt)"

# the_model_that_was_saved_is_the_best_epoch_too
best=$(sed -n 's/^epoch \([0-9]*\) is the best by AUC, and saved$/\1/p' all.txt)
grep 'saved model=saved ' log.txt | tail -n 1 | grep -q "step=$((30 * best))\$" ||
    fail "--save has not epoch $best: $(cat all.txt log.txt)"

# without_a_test_the_last_epoch_is_saved
"$flotilla" train ctr_dnn --data train --batch 100 --hidden 16 --epochs 2 \
    --save last >last.txt 2>&1 || fail "without a test: $(cat last.txt)"
grep -q 'held out' last.txt && fail "nothing was held out: $(cat last.txt)"
[ "$(grep -c '^ *[12]  ' last.txt)" -eq 2 ] || fail "no table: $(cat last.txt)"
"$flotilla" model ls last >listed 2>&1
grep -q '60' listed || fail "the model is not of step 60: $(cat listed)"

# a_job_keeps_the_best_epoch_in_every_mode_and_its_workers_stop_together
for mode in sync half_async async geo collective; do
    servers=--server_num=1
    [ $mode != collective ] || servers=
    timeout 120 "$fleetrun" $servers --worker_num=2 --log_dir="$mode" "$flotilla" \
        train "$@" --learning-rate $rate --mode $mode --epochs 40 --patience 2 \
        --infer "$dir/m-$mode" \
        --save "$dir/s-$mode" >$mode.txt 2>&1 || {
        fail "mode $mode ends with $?"
        tail -n 20 $mode.txt $mode/*
    }
    # in mode geo each worker judges its own copy, and the mean of them is saved
    near=
    [ $mode != geo ] || near=0.05
    kept $mode/workerlog.0 m-$mode "mode $mode" $near
    grep -q '^epoch 1 of 40: 3000 samples' $mode/workerlog.0 ||
        fail "mode $mode does not count both workers"
    grep -q '^epoch' $mode/workerlog.1 && fail "mode $mode: both workers tell it"
    "$flotilla" model verify s-$mode >verified 2>&1 ||
        fail "mode $mode: $(cat verified)"
done

# a_run_that_goes_on_knows_how_good_the_epochs_before_were
set -- "$@" --learning-rate $rate
for saved in 70 100; do # in epoch 3, which is the best, and in epoch 4
    "$flotilla" train "$@" --epochs 4 --infer before-$saved --set save_dir=auto-$saved \
        --set save_every_steps=$saved >before.txt 2>&1 || fail "$(cat before.txt)"
    "$flotilla" train "$@" --epochs 5 --infer before-$saved --set resume=auto-$saved \
        >after.txt 2>&1 || fail "going on ends with $?: $(cat after.txt)"
    grep -q '^epoch 2 of 5: trained before the model was saved; held out: loss' after.txt ||
        fail "epoch 2 is trained again, or not told: $(cat after.txt)"
    kept after.txt before-$saved "going on from step $saved"
    [ "$(of_end after.txt)" = "$(of_end all.txt)" ] ||
        fail "going on gives another best: $(cat after.txt)"
done
grep -q 'epoch 3 is the best by AUC, and was saved before this run' after.txt ||
    fail "who saved the best is not told: $(cat after.txt)"

# workers_that_go_on_decide_alike: what they train is better than one epoch alone
set -- --server_num=1 --worker_num=2 "$flotilla" train "$@" --mode sync
timeout 120 "$fleetrun" --log_dir=first "$@" --epochs 1 --save "$dir/auto" \
    >first.txt 2>&1 || fail "$(cat first.txt)"
timeout 120 "$fleetrun" --log_dir=next "$@" --epochs 30 --patience 2 \
    --infer "$dir/next-best" --set resume="$dir/auto" >next.txt 2>&1 ||
    fail "a job that goes on ends with $?: $(tail -n 5 next.txt next/*)"
grep -q '^epoch 1 of 30: trained before the model was saved; held out: loss [0-9.]*$' \
    next/workerlog.0 || fail "epoch 1 is trained again: $(cat next/workerlog.0)"
grep -q '^stopped: 2 epochs brought nothing better' next/workerlog.0 ||
    fail "it does not stop: $(cat next/workerlog.0)"
"$flotilla" model verify next-best >verified 2>&1 || fail "$(cat verified)"
set -- ctr_dnn --data train --test test --batch 100 --hidden 16

# what_makes_no_sense_is_refused
refuse 2 "--patience waits for a better test" ctr_dnn --data train --epochs 3 \
    --patience 1
refuse 2 "would never end --epochs 3" "$@" --epochs 3 --patience 3
refuse 2 "--patience needs a whole number" "$@" --epochs 3 --patience 0
refuse 1 "--mode async is of a job" ctr_dnn --data train --mode async
refuse 1 "--strategy min_block_size=3 is of a job" ctr_dnn --data train \
    --strategy min_block_size=3
exit $failed
