#!/bin/sh
# test_eval.sh FLOTILLA CLICK FLEETRUN - `flotilla eval` against figures that awk makes of
# the scores of `flotilla predict`; CLICK is the example that saves a model.
flotilla=$(realpath "$1")
click=$(realpath "$2")
fleetrun=$(realpath "$3")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail()
{
    echo "test_eval: $*" >&2
    exit 1
}

"$click" model >click.txt 2>&1 || fail "$(cat click.txt)"
awk 'BEGIN { srand(7); for (i = 0; i < 2000; i++)
    printf "1 %d 1 %d 1 %d 1 %.3f 2 %d %d\n", rand() < 0.4, rand() * 9,
        rand() * 8, rand(), rand() * 8, rand() * 8 }' >logs.txt
slots='label:u64:1 user:u64:1 shown:u64:1 price:float:1 seen:u64'

"$flotilla" predict model --data logs.txt --slots "$slots" >scores.txt ||
    fail "predict"
"$flotilla" eval model --data logs.txt --slots "$slots" --group user \
    --by user --top 4 >one.txt || fail "eval"
"$flotilla" eval model --data logs.txt --slots "$slots" --group user \
    --by user --top 4 --threads 3 --batch 17 >many.txt || fail "eval, threads"
cmp one.txt many.txt || fail "threads change figures"

# Three workers with a share each get the very same figures.
"$fleetrun" --server_num=1 --worker_num=3 --log_dir=logs "$flotilla" eval \
    model --data logs.txt --slots "$slots" --group user --by user --top 4 \
    --batch 50 >fleet.txt 2>&1 || fail "$(cat fleet.txt logs/*)"
grep -q "^auc" logs/workerlog.1 && fail "one worker tells"
grep -v "Z INFO " logs/workerlog.0 >first.txt
cmp one.txt first.txt || fail "workers change figures: $(cat logs/*)"

# Counts pairs, as the AUC is defined.
paste scores.txt logs.txt | tr ' ' '\t' | awk -F '\t' '
    { p[NR] = $1; y[NR] = $3; pos += $3; sum += $1
      e = $1 - $3; mae += e < 0 ? -e : e; sq += e * e }
    END {
        for (i = 1; i <= NR; i++)
            for (k = 1; y[i] && k <= NR; k++)
                if (!y[k]) {
                    pairs++
                    wins += p[i] > p[k] ? 1 : p[i] == p[k] ? 0.5 : 0
                }
        printf "samples\t%d\npositives\t%d\nauc\t%.9g\n", NR, pos, wins / pairs
        printf "mae\t%.9g\nrmse\t%.9g\n", mae / NR, sqrt(sq / NR)
        printf "copc\t%.9g\n", pos / sum
    }' >expected.txt
awk -F '\t' '
    NR == FNR { want[$1] = $2; next }
    $1 in want { d = $2 - want[$1]; n++
        if (d > 1e-6 || d < -1e-6) { print $1, $2, "is not", want[$1]; bad = 1 } }
    END { exit bad || n != 6 }' expected.txt one.txt || fail "figures"
[ "$(sed -n '/^user/,$p' one.txt | wc -l)" = 5 ] || fail "a table of four"

refused()
{
    said=$1
    shift
    "$flotilla" eval model --data logs.txt --slots "$slots" "$@" \
        >out.txt 2>error.txt && fail "accepted: $*"
    grep -q "$said" error.txt || fail "$(cat error.txt)"
}

refused 'no slot nope' --label nope
refused 'a label is not 0 or 1' --label shown
refused 'does not have one number' --label seen
refused 'does not have one id' --group seen
refused 'does not have one id' --by price
exit 0
