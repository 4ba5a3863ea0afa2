#!/bin/sh
# test_train_try.sh FLOTILLA FLEETRUN - trials over values of options: all of
# them, or drawn; a table sorted by what was held out, and the line of the best.
# What is wrong is told before the first trial.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
subject=train
. "$(dirname "$0")/kit.sh"

# refuse_at_once CODE TEXT ARGUMENTS: it says the text, and nothing was trained.
refuse_at_once()
{
    refuse "$@"
    grep -q '^training' refused && fail "train $*: it began: $(cat refused)"
}

# rows FILE: the table's, without its head.
rows() { sed -n '/^ trial/,/^the best/p' "$1" | sed '1d;$d'; }

# sorted FILE: the AUC of the rows falls.
sorted()
{
    rows "$1" | awk '!/failed/ { if (n++ && $NF > last) bad = 1; last = $NF }
END { exit bad || !n }' || fail "the table is not sorted: $(cat "$1")"
}

"$flotilla" datagen --lines 1000 --out train 2>/dev/null || fail "no data"
"$flotilla" datagen --lines 500 --first 40000 --out test 2>/dev/null
set -- ctr_dnn --data train --test test --batch 50 --epochs 2

# all_combinations_are_tried
"$flotilla" train "$@" --try hidden=4,8 --try learning_rate=0.001,0.01,0.02 \
    --set num_threads=1 >grid.txt 2>log.txt || fail "a grid ends with $?: $(cat log.txt)"
[ "$(grep -c '^trial [1-6] of 6: ' grid.txt)" -eq 6 ] || fail "not 6 trials: $(cat grid.txt)"
[ "$(rows grid.txt | wc -l)" -eq 6 ] || fail "not 6 rows: $(cat grid.txt)"
sorted grid.txt

# the_line_of_the_best_gives_the_best_again
best=$(rows grid.txt | head -n 1 | awk '{ print $NF }')
line=$(sed -n 's/^the best: flotilla //p' grid.txt)
echo "$line" | grep -q -- '--set num_threads=1$' || fail "settings are lost: $line"
eval "\"\$flotilla\" $line" >again.txt 2>&1 || fail "the best line ends with $?: $(cat again.txt)"
grep -q "^held out: .* AUC $best\$" again.txt ||
    fail "the best line does not give $best: $(cat again.txt)"

# a_value_that_diverges_ends_its_trial_alone
"$flotilla" train "$@" --hidden 4 --try learning_rate=1e19,0.01 >one.txt 2>&1 ||
    fail "one that diverges ends all: $(cat one.txt)"
rows one.txt | tail -n 1 | grep -q '1e19  failed' || fail "it is not last: $(cat one.txt)"
"$flotilla" train "$@" --hidden 4 --try learning_rate=1e19,1e18 >none.txt 2>&1 &&
    fail "no trial was trained, and it ends well"
grep -q 'none of the 2 trials could be trained' none.txt || fail "$(cat none.txt)"

# drawn_values_are_in_their_range_and_the_same_for_the_same_seed
draw() { "$flotilla" train "$@" --try learning_rate=0.001..0.1 --try hidden=4..8 \
    --try-random 4 2>/dev/null | sed -n 's/^trial [0-9] of 4: //p'; }
draw "$@" >first
draw "$@" >second
draw "$@" --seed 5 >third
cmp -s first second || fail "the same seed draws others: $(cat first second)"
cmp -s first third && fail "another seed draws the same: $(cat first third)"
awk '$2 < 0.001 || $2 > 0.1 || $4 != int($4) || $4 < 4 || $4 > 8 { bad = 1 }
END { exit bad || NR != 4 }' first || fail "out of range: $(cat first)"
# of lists no combination comes twice
"$flotilla" train "$@" --try hidden=2,3,4 --try learning_rate=0.01,0.02 \
    --try-random 5 2>/dev/null | sed -n 's/^trial [0-9] of 5: //p' | sort -u >third
[ "$(wc -l <third)" -eq 5 ] || fail "combinations come twice: $(cat third)"

# what_is_wrong_is_told_before_anything_is_trained
refuse_at_once 2 "did you mean --hidden?" "$@" --try hiden=4,8
refuse_at_once 2 "no use for --vocab" "$@" --try vocab=a,b
refuse_at_once 2 "--hidden is there twice" "$@" --hidden 4 --try hidden=4,8
refuse_at_once 2 "--hidden needs a whole number" "$@" --try hidden=4,many
refuse_at_once 1 "'fast' is not a number" "$@" --try learning_rate=0.1,fast
refuse_at_once 1 "no optimizer is called 'sdg'" "$@" --try optimizer=adam,sdg
refuse_at_once 2 "--try needs OPTION=VALUE" "$@" --try hidden
refuse_at_once 2 "--try needs OPTION=VALUE" "$@" --try
refuse_at_once 2 "--try has --hidden twice" "$@" --try hidden=1 --try hidden=2
refuse_at_once 2 "values are apart by commas" "$@" --try hidden=4,,8
refuse_at_once 2 "values are apart by commas" "$@" --try hidden=8..4 --try-random 2
refuse_at_once 2 "--try-random N says how often" "$@" --try hidden=4..8
refuse_at_once 2 "--try-random draws of what?" "$@" --try-random 3
refuse_at_once 2 "--try-random needs a whole number" "$@" --try hidden=4,8 --try-random 0
refuse_at_once 2 "of 2 combinations" "$@" --try hidden=4,8 --try-random 2
refuse_at_once 2 "--test is the same for all trials" "$@" --try test=a,b
refuse_at_once 2 "compares by what is held out" ctr_dnn --data train --try hidden=4,8
refuse_at_once 2 "--try keeps no model; leave --save out" "$@" --try hidden=4,8 --save m
refuse_at_once 2 "leave --record out" "$@" --try hidden=4,8 --record m
refuse_at_once 2 "leave --tensorboard out" "$@" --try hidden=4,8 --tensorboard m
"$fleetrun" --server_num=1 --worker_num=1 --log_dir=job "$flotilla" train "$@" \
    --try hidden=4,8 >job.txt 2>&1 && fail "a job tries"
cat job.txt job/* | grep -q "find the best line first" ||
    fail "a job does not say why it tries nothing: $(cat job.txt job/*)"
exit $failed
