#!/bin/sh
# test_columns.sh FLOTILLA FLEETRUN - models take whatever columns a csv file has,
# with features over them: alone, as a job, and again in what was saved. Lines are
# made here.
set -u
flotilla=$(realpath "$1")
fleetrun=$(realpath "$2")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

fail()
{
    echo "FAIL $*"
    failed=1
}

# make KIND RECORDS SEED: lines on standard output. A linear congruence draws, so
# that they are the same everywhere.
make()
{
    awk -v kind="$1" -v n="$2" -v state="$3" '
    function draw(below)
    {
        state = (state * 1103515245 + 12345) % 2147483648
        return int(state / 65536) % below
    }
    # Who has more income and looks at night clicks more; a job matters in one
    # town alone, and so does a tag.
    function click(income, hour, job, town, tag, s)
    {
        income = 1000 * draw(60); hour = draw(24); job = draw(5)
        town = draw(4); tag = draw(6)
        s = income / 1000 + (hour < 6) * 30 + (job == town) * 30 + \
            (tag == 2) * 30
        return (draw(10) ? income : "") ",2014-10-" 10 + draw(20) " " hour \
            ":00,job" job ",town" town ",tag" tag ";any" draw(9) "," \
            (s + draw(20) > 60 ? "yes" : "no")
    }
    # Tastes are one of two, and so are things.
    function rating(who, what)
    {
        who = draw(40); what = draw(60)
        return who "\t" what "\t" 3 + (who % 2 == what % 2 ? 1 : -1) + \
            draw(2) / 2
    }
    BEGIN {
        for (i = 0; i < n; i++)
            print kind == "clicks" ? click() : rating()
    }'
}

# measured METRIC: that of the last line about what was held out in log.txt.
measured()
{
    sed -n "s/^held out: .*$1 \([0-9.]*\).*/\1/p" log.txt | tail -n 1
}

# between LEAST VALUE MOST WHAT
between()
{
    awk -v least="$1" -v x="$2" -v most="$3" \
        'BEGIN { exit !(x != "" && x >= least && x <= most) }' ||
        fail "$4: '$2' is not in $1..$3: $(cat log.txt)"
}

# train ARGUMENTS: it ends well.
train()
{
    "$flotilla" train "$@" >log.txt 2>&1 ||
        fail "train $* ends with $?: $(cat log.txt)"
}

# refused TEXT ARGUMENTS: training ends with that text.
refused()
{
    text=$1
    shift
    "$flotilla" train "$@" --data clicks.train >log.txt 2>&1 &&
        fail "train $* was taken"
    grep -qF -e "$text" log.txt || fail "'$text' was not said: $(cat log.txt)"
}

make clicks 6000 7 >clicks.train
make clicks 1500 8 >clicks.test
make ratings 6000 7 >ratings.train
make ratings 1500 8 >ratings.test
clicks='csv:columns=income:float(nan) when:time(%Y-%m-%d %H:%M) job:hash
 town:hash tags:hashes(;) click:label(yes)'
ratings='csv:sep=tab,columns=who:id what:id label:float'
cat >features.txt <<END
gone = missing(income)
income = standard(fill(income, 30000))   # what is missing is in the middle
hour = hour(when)
where = cross(job, town)
END

"$flotilla" data count --format "$clicks" --stats stats clicks.train >log.txt ||
    fail "statistics cannot be made: $(cat log.txt)"

# any_columns_are_learnt_from
for model in lr wide_deep ctr_dnn deepfm; do
    hidden="--hidden 16"
    [ $model = lr ] && hidden="--learning-rate 0.01"
    # shellcheck disable=SC2086
    train $model --format "$clicks" --label click --data clicks.train \
        --test clicks.test --epochs 4 --batch 20 $hidden --stats stats \
        --features @features.txt
    between 0.9 "$(measured AUC)" 1 "$model, AUC"
done

# every_model_is_judged_by_the_label_that_is_named
for model in lr ctr_dnn; do
    train $model --format "$clicks" --label click --data clicks.train \
        --test clicks.test --batch 20 --stats stats --features @features.txt \
        --metrics auc
    between 0.5 "$(measured auc)" 1 "$model, metric auc"
done

# a_number_is_learnt_by_the_square_loss
for model in mf lr wide_deep deepfm; do
    hidden=""
    case $model in *deep*) hidden="--hidden 16" ;; esac
    most=0.3
    [ $model = lr ] && most=2
    # shellcheck disable=SC2086
    train $model --format "$ratings" --loss square --data ratings.train \
        --test ratings.test --epochs 10 --batch 20 --optimizer adam \
        --learning-rate 0.01 $hidden
    between 0 "$(measured loss)" "$most" "$model, square loss"
done

# what_is_saved_has_its_features_inside
train wide_deep --format "$clicks" --label click --data clicks.train \
    --test clicks.test --hidden 16 --batch 20 --stats stats \
    --features @features.txt --infer saved
rm stats features.txt
auc=$(measured AUC)
"$flotilla" eval saved --format "$clicks" --label click --data clicks.test \
    >eval.txt 2>&1 || fail "eval ends with $?: $(cat eval.txt)"
between "$(awk -v x="$auc" 'BEGIN { print x - 0.002 }')" \
    "$(sed -n 's/^auc\t//p' eval.txt)" \
    "$(awk -v x="$auc" 'BEGIN { print x + 0.002 }')" "eval, AUC"

# features_go_over_the_columns_that_a_model_has_of_its_own
awk 'BEGIN {
    for (i = 0; i < 500; i++)
        print i % 60 ",w,100000,e,9,m,o,r,x,s" i % 2 ",0,0,40,c," (i % 60 > 30)
}' >adult.train
train wide_deep --data adult.train --test adult.train --hidden 16 --epochs 20 \
    --batch 20 --features 'age = standard(age, 30, 17); drop fnlwgt hours'
between 0.9 "$(measured AUC)" 1 "columns of its own, AUC"

# a_job_trains_the_same
"$fleetrun" --server_num=1 --worker_num=2 --log_dir=job "$flotilla" train \
    deepfm --mode sync --format "$clicks" --label click --data clicks.train \
    --test clicks.test --hidden 16 --batch 20 \
    --features 'where = cross(job, town); hour = hour(when); drop income' >job.txt 2>&1 ||
    fail "a job ends with $?: $(tail -n 20 job.txt job/*)"
cp job/workerlog.0 log.txt
between 0.7 "$(measured AUC)" 1 "a job, AUC"

# what_does_not_fit_is_told
refused 'mf takes the columns that the data has: --format' mf
refused 'gru4rec has no use for --features' gru4rec --items 3 --features 'a=b'
refused 'the data has no column '\''label'\''' lr --format "$clicks"
refused 'takes two columns beside the label' mf --format "$clicks" --label click
refused 'is no category with one value' mf --label click --format \
    'csv:columns=income:float job:hash click:id'
refused 'nothing beside it that a model could learn from' lr --format \
    'csv:columns=label:id'
refused 'did you mean income' lr --format "$clicks" --label click \
    --features 'a = log(incom)'
refused 'flotilla data count --stats FILE' lr --format "$clicks" --label click \
    --features 'a = standard(income)'
exit $failed
