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

# alike A B: the same words, and numbers that differ by less than 1e-6: a score is
# rounded by the size of its batch, as products are.
alike()
{
    [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] && paste "$1" "$2" | awk -F '\t' '
        { for (i = 1; i <= NF / 2; i++) {
              a = $i; b = $(i + NF / 2); d = a - b
              if (a != b && (a + 0 != a || d > 1e-6 || d < -1e-6)) {
                  print a, "is not", b
                  exit 1
              }
          } }'
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
alike one.txt many.txt || fail "threads change figures"

# Three workers with a share each get the same figures.
"$fleetrun" --server_num=1 --worker_num=3 --log_dir=logs "$flotilla" eval \
    model --data logs.txt --slots "$slots" --group user --by user --top 4 \
    --batch 50 >fleet.txt 2>&1 || fail "$(cat fleet.txt logs/*)"
grep -q "^auc" logs/workerlog.1 && fail "one worker tells"
grep -v "Z INFO " logs/workerlog.0 >first.txt
alike one.txt first.txt || fail "workers change figures: $(cat logs/*)"

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

# Measures by name, alone and by three workers, against awk.
metrics=auc,logloss,rmse,gauc:user,precision@0.5,recall@0.5,recall@20:user,ndcg@10:user
"$flotilla" eval model --data logs.txt --slots "$slots" --metrics $metrics \
    >named.txt || fail "eval --metrics"
rm -rf logs
"$fleetrun" --server_num=1 --worker_num=3 --log_dir=logs "$flotilla" eval \
    model --data logs.txt --slots "$slots" --metrics $metrics --batch 50 \
    >fleet.txt 2>&1 || fail "$(cat fleet.txt logs/*)"
grep -v "Z INFO " logs/workerlog.0 >first.txt
alike named.txt first.txt || fail "workers change metrics: $(cat logs/*)"
for name in auc log_loss rmse group_auc; do
    other=$(echo $name | sed 's/log_loss/logloss/;s/group_auc/gauc:user/')
    awk -F '\t' -v a=$name -v b=$other '$1 == a || $1 == b { print $2 }' \
        one.txt named.txt | awk '{ v[NR] = $1 }
            END { d = v[1] - v[2]; exit !(NR == 2 && d < 1e-8 && d > -1e-8) }' ||
        fail "$name is not $other"
done

# The places of equal scores are shared, as all their orders would be.
paste scores.txt logs.txt | tr ' ' '\t' | sort -s -k1,1gr | awk -F '\t' '
    { u = $5; n[u]++; p[u, n[u]] = $1; y[u, n[u]] = $3; pos[u] += $3
      hit += $1 >= 0.5 && $3; taken += $1 >= 0.5; all += $3 }
    function weight(r) { return log(2) / log(r + 1) }
    END {
        for (u in n) {
            hits = gain = best = 0
            for (i = 1; i <= n[u]; i = j) {
                ties = right = w = most = 0
                for (j = i; j <= n[u] && p[u, j] == p[u, i]; j++) {
                    ties++; right += y[u, j]
                    w += j <= 10 ? weight(j) : 0
                    most += j <= 20
                }
                hits += right * most / ties
                gain += right * w / ties
            }
            for (i = 1; i <= 10 && i <= pos[u]; i++)
                best += weight(i)
            if (pos[u]) { recall += hits / pos[u]; ndcg += gain / best; users++ }
        }
        printf "precision@0.5\t%.9g\nrecall@0.5\t%.9g\n", hit / taken, hit / all
        printf "recall@20:user\t%.9g\nndcg@10:user\t%.9g\n", recall / users,
            ndcg / users
    }' >expected.txt
awk -F '\t' '
    NR == FNR { want[$1] = $2; next }
    $1 in want { d = $2 - want[$1]; n++
        if (d > 1e-6 || d < -1e-6) { print $1, $2, "is not", want[$1]; bad = 1 } }
    END { exit bad || n != 4 }' expected.txt named.txt || fail "metrics"

# Ratings: labels beside 0 and 1.
"$flotilla" eval model --data logs.txt --slots "$slots" --label shown \
    --metrics rmse,mae >ratings.txt || fail "eval of numbers"
paste scores.txt logs.txt | tr ' ' '\t' | awk -F '\t' '
    { e = $1 - $7; mae += e < 0 ? -e : e; sq += e * e }
    END { printf "rmse\t%.5f\nmae\t%.5f\n", sqrt(sq / NR), mae / NR }' >expected.txt
awk -F '\t' '{ printf "%s\t%.5f\n", $1, $2 }' ratings.txt | cmp - expected.txt ||
    fail "ratings: $(cat ratings.txt expected.txt)"

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
refused 'did you mean auc' --metrics aux
refused 'no slot nobody' --metrics gauc:nobody
refused 'does not have one id' --metrics ndcg@5:seen
refused 'is not 0 or 1' --metrics auc --label shown
refused 'leave --group and --by out' --metrics auc --group user
exit 0
