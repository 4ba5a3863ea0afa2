#!/bin/sh
# test_models.sh FLOTILLA FOLDER - flotilla train saves and loads models; the
# files are what other tools read.
set -u
flotilla=$(realpath "$1")
here=$(realpath "$2")
subject='train ctr_dnn --hidden 8'
. "$(dirname "$0")/kit.sh"

# train ARGUMENTS: it ends well; what it says is in `said`.
train()
{
    "$flotilla" train ctr_dnn --hidden 8 --batch 100 "$@" \
        >said 2>&1 || { fail "train $*: $(cat said)"; return 1; }
}

"$flotilla" datagen --lines 2000 --out day1 2>/dev/null || fail "no data"
"$flotilla" datagen --lines 2000 --first 2000 --out day2 2>/dev/null

# two_passes_with_a_save_between_equal_two_passes_in_one_go
train --data day1 --save model
train --data day1 --load model --save model
train --data day1 --epochs 2 --save whole
for file in dense.safetensors tables/SparseFeatFactors/0000-1023.safetensors; do
    [ -s "model/$(cat model/CURRENT)/$file" ] || fail "there is no $file"
done
cmp "model/$(cat model/CURRENT)/dense.safetensors" \
    "whole/$(cat whole/CURRENT)/dense.safetensors" ||
    fail "going on gives other numbers"

# one_version_stays
[ "$(ls model)" = "$(cat model/CURRENT)
CURRENT" ] || fail "more than one version: $(ls model)"

# others_read_the_files
if command -v python3 >/dev/null; then
    python3 "$here/read_safetensors.py" $(find model -name '*.safetensors') ||
        fail "the files are no safetensors"
    python3 -m json.tool "model/$(cat model/CURRENT)/MANIFEST.json" >/dev/null ||
        fail "the manifest is no JSON"
fi

# rows_go_online_once_they_have_gained_enough: 0.1 for each batch that has them
counts='base_threshold=0.15 delta_threshold=0.25'
online()
{
    train --ctr "$counts" --infer online --infer-delta --infer-by-score "$@"
    rows=$("$flotilla" model ls online |
        sed -n 's/^table .* : \([0-9]*\) rows,.*/\1/p')
}
online --data day1 --save counted
grep -q 'the save is a whole one: there is no version yet' said ||
    fail "a whole save is not told: $(cat said)"
all=$rows
head -n 400 day1 >hours
online --data hours --load counted --save counted
"$flotilla" model ls online | grep -q ': delta of ' || fail "it is no delta"
[ "$rows" -gt 0 ] && [ "$rows" -lt "$all" ] ||
    fail "$rows rows of $all have gained enough"
head -n 100 day1 >minute
"$flotilla" predict online --data minute --format criteo >scores 2>said ||
    fail "what is online does not predict: $(cat said)"
[ "$(wc -l <scores)" -eq 100 ] || fail "$(wc -l <scores) scores of 100"

# a_delta_has_what_changed
cp -r model chain
head -n 100 day2 >hour
train --data hour --load chain --save chain --save-kind delta
"$flotilla" model ls chain >said 2>&1
grep -q delta said || fail "the second version is no delta: $(cat said)"
train --data hour --load model --save model
cmp "model/$(cat model/CURRENT)/dense.safetensors" \
    "chain/$(cat chain/CURRENT)/dense.safetensors" ||
    fail "a delta has other numbers"
train --data day2 --load chain

# names_are_strict_and_what_is_forgiven_is_told
refuse 1 "does not fit the program" --data day2 --load model --optimizer sgd
grep -q "_moment1_0 was saved, but the program has none" refused ||
    fail "what does not fit is not listed: $(cat refused)"
train --data day2 --load model --optimizer sgd --load-state new
refuse 1 "was saved as a table of rows of 10" --data day2 --load model --width 6
train --data day2 --load model --width 6 \
    --load-resize SparseFeatFactors,fc_0.w_0
grep -q "loading fc_0.w_0: F32\[273,8\] becomes F32\[169,8\]" said ||
    fail "what is resized is not told: $(cat said)"
train --data day2 --load model --load-only fc_0.w_0,fc_0.b_0
refuse 1 "is no renaming: write old=new" --data day2 --load model --load-map a
refuse 1 "has no a" --data day2 --load model --load-map a=fc_0.w_0

# what_makes_no_sense_is_refused
refuse 1 "cannot open the model nowhere" --data day2 --load nowhere
refuse 1 "is no model" --data day2 --load .
refuse 2 "that is a file; name a folder" --data day2 --save day1
refuse 2 "what is to be loaded?" --data day2 --load-only a
refuse 2 "where to save?" --data day2 --save-kind delta
refuse 2 "where to save what predictions need?" --data day2 --infer-delta
refuse 2 "--infer day1: that is a file" --data day2 --infer day1
refuse 2 "--save-kind is full or delta" --data day2 --save model --save-kind x
refuse 2 "--load-state is saved or new" --data day2 --load model --load-state old
exit $failed
