#!/bin/sh
# test_click.sh CLICK FLOTILLA [SCORE] - a model is trained and saved; C++, the
# tool with any number of threads and a server give the same scores.
click=$1 flotilla=$2 score=$3
dir=$(mktemp -d) || exit 1
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
fail()
{
    echo "FAIL $*"
    exit 1
}

"$click" "$dir/model" >"$dir/said" || fail "the training fails"
grep -q '^saved .*: the score is ' "$dir/said" || fail "it does not say so"

# The records of score.cpp: how many ids, the ids; shown; price.
printf '2 2 4 1 6 1 0.2\n1 3 1 6 1 0.2\n1 8 1 7 1 0.9\n' >"$dir/three"
"$flotilla" predict "$dir/model" --data "$dir/three" >"$dir/scores" ||
    fail "flotilla predict fails"
[ "$(wc -l <"$dir/scores")" -eq 3 ] || fail "not a line for each record"
awk 'NR == 1 && $1 < 0.7 || NR > 1 && $1 > 0.3 { exit 1 }' "$dir/scores" ||
    fail "the scores are wrong: $(cat "$dir/scores")"

if [ -n "$score" ]; then
    "$score" "$dir/model" >"$dir/from_cpp" || fail "score.cpp fails"
    awk '{ printf "%.4f\n", $1 }' "$dir/scores" | cmp -s - "$dir/from_cpp" ||
        fail "C++ has other scores: $(cat "$dir/from_cpp")"
fi

# The order is that of the file, with any number of threads.
awk 'BEGIN { for (i = 0; i < 5000; i++)
    print 1, i % 97, 1, i % 89, 1, i % 11 / 10 }' >"$dir/many"
"$flotilla" predict "$dir/model" --data "$dir/many" --batch 7 >"$dir/one" ||
    fail "many records"
"$flotilla" predict "$dir/model" --data "$dir/many" --batch 7 --threads 4 \
    -o "$dir/four" || fail "four threads"
cmp "$dir/one" "$dir/four" || fail "threads change the order"
[ "$(wc -l <"$dir/one")" -eq 5000 ] || fail "lines are missing"

# Slots by name, in another order and with others among them.
printf '1 1 1 0.2 1 6 2 2 4\n' >"$dir/other"
"$flotilla" predict "$dir/model" --data "$dir/other" \
    --slots 'label:u64:1 price:float:1 shown:u64:1 seen:u64' >"$dir/first" ||
    fail "slots in another order"
head -1 "$dir/scores" | cmp - "$dir/first" || fail "another order, other scores"

# What is wrong is said.
"$flotilla" predict "$dir/model" --data "$dir/other" --slots 'price:float:1' \
    2>"$dir/why" && fail "a missing slot is not told"
grep -q "the model's input seen is no slot of the data" "$dir/why" ||
    fail "$(cat "$dir/why")"
"$flotilla" predict "$dir/nothing" --data "$dir/three" 2>"$dir/why" &&
    fail "no model is not told"
grep -q nothing "$dir/why" || fail "$(cat "$dir/why")"

# A server ends in order.
"$flotilla" serve "$dir/model" --listen 127.0.0.1:0 >"$dir/where" 2>"$dir/log" &
server=$!
for _ in $(seq 600); do
    grep -q 'listens at' "$dir/where" && break
    kill -0 "$server" 2>/dev/null || fail "the server ends: $(cat "$dir/log")"
    sleep 0.1
done
grep -q 'listens at 127.0.0.1:[1-9]' "$dir/where" || fail "it does not listen"
kill "$server"
wait "$server" || fail "it ends with $?"
server=
