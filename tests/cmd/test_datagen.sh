#!/bin/sh
# test_datagen.sh FLOTILLA - the click log of `flotilla datagen` is the same
# however it is made, has the shape it promises, and refusals say why.
flotilla=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
tab=$(printf '\t')

fail()
{
    echo "FAIL $*"
    failed=1
}

make()
{
    "$flotilla" datagen "$@" 2>"$dir/said" || fail "datagen $* exits with $?"
}

# refuse CODE TEXT ARGUMENTS: it ends with the code and says the text.
refuse()
{
    code=$1 text=$2
    shift 2
    "$flotilla" datagen "$@" >"$dir/refused" 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "datagen $*: exit code $got, not $code"
    grep -qF -e "$text" "$dir/refused" ||
        fail "datagen $*: '$text' is not in: $(cat "$dir/refused")"
}

# the_bytes_do_not_depend_on_the_number_of_threads
make --lines 10000 --threads 1 >"$dir/one"
for threads in 2 3 7; do
    make --lines 10000 --threads $threads --out "$dir/many"
    cmp "$dir/one" "$dir/many" || fail "$threads threads give other bytes"
done
[ -z "$(find "$dir" -name '*.tmp-*')" ] || fail "the part is still there"

# a_range_that_is_cut_gives_the_same_bytes
make --lines 3001 --threads 2 >"$dir/cut"
make --lines 6999 --first 3001 --threads 2 >>"$dir/cut"
cmp "$dir/one" "$dir/cut" || fail "the cut range gives other bytes"

# a_size_ends_with_the_first_line_that_reaches_it
make --bytes 1M --threads 3 >"$dir/sized"
head -c "$(wc -c <"$dir/sized")" "$dir/one" | cmp - "$dir/sized" ||
    fail "--bytes gives other lines"
[ "$(wc -c <"$dir/sized")" -ge 1048576 ] || fail "--bytes stops too early"
[ "$(sed '$d' "$dir/sized" | wc -c)" -lt 1048576 ] || fail "--bytes goes on"
[ "$(tail -c 1 "$dir/sized" | od -An -tx1 | tr -d ' ')" = 0a ] ||
    fail "--bytes cuts a line"

# another_seed_is_another_world
make --lines 100 --seed 1 >"$dir/other"
head -n 100 "$dir/one" | cmp -s - "$dir/other" && fail "seed 1 is seed 0"

# the_bytes_are_those_of_every_machine
[ "$(make --lines 3 --threads 1 | cksum)" = "2328568554 738" ] ||
    fail "line 0..2 changed: data of before cannot be made again"

# a_line_has_a_label_13_integers_and_26_categories
awk -F"$tab" '
NF != 40 || $1 !~ /^[01]$/ { bad = "line " NR " has " NF " fields: " $0 }
{
    for (i = 2; i <= 14; i++) {
        if ($i !~ /^-?[0-9]*$/) bad = "line " NR ": integer " $i
        empty_int += $i == ""
        if ($i > largest) largest = $i
    }
    for (i = 15; i <= 40; i++) {
        if ($i != "" && $i !~ /^[0-9a-f]*$/ || length($i) % 8)
            bad = "line " NR ": category " $i
        empty_cat += $i == ""
        if ($i != "" && !seen[i, $i]++) distinct[i]++
    }
    clicks += $1
}
END {
    rate = clicks / NR
    if (rate < 0.22 || rate > 0.29) bad = "rate of clicks " rate
    if (!empty_int || !empty_cat) bad = "nothing is empty"
    if (largest < 100000) bad = "no tail: the largest integer is " largest
    if (distinct[23] > 16 || distinct[17] < 2000)
        bad = "vocabularies " distinct[23] " and " distinct[17]
    if (bad) print "FAIL " bad
    exit bad != ""
}' "$dir/one" || failed=1

# the_best_auc_is_about_four_fifths
make --lines 50000 >"$dir/lines"
awk '{
    for (i = 1; i < NF; i++)
        if ($i == "AUC") auc = $(i + 1)
}
END {
    if (auc < 0.78 || auc > 0.82) print "FAIL best AUC " auc
    exit auc < 0.78 || auc > 0.82
}' "$dir/said" || failed=1
grep -q "^flotilla datagen: 50000 lines, $(wc -c <"$dir/lines") bytes, " \
    "$dir/said" || fail "the report is wrong: $(cat "$dir/said")"

# the_same_clicks_come_as_multislot
make --lines 2000 --format multislot >"$dir/slots"
awk '
NF != 14 + 26 * 2 + 2 || $1 != 13 || $15 != 1 || $(NF - 1) != 1 {
    print "FAIL multislot line " NR ": " $0
    bad = 1
}
$16 < 8589934592 || $16 > 2 * 8589934592 {
    print "FAIL line " NR ": id " $16 " is not of column 1"
    bad = 1
}
END { exit bad }' "$dir/slots" || failed=1
head -n 2000 "$dir/one" | cut -f 1 >"$dir/clicks"
sed 's/.* //' "$dir/slots" | cmp - "$dir/clicks" || fail "other clicks"

# wrong_usage_and_failures_say_why
refuse 2 "there is no option '--line'" --line 3
refuse 2 "--lines needs a whole number in 1.." --lines 0
refuse 2 "not '3K'" --lines 3K
refuse 2 "not '-1'" --lines -1
refuse 2 "not '20000000T'" --bytes 20000000T
refuse 2 "--bytes needs a value behind it" --bytes
refuse 2 "--lines is there twice" --lines 1 --lines 2
refuse 2 "one of them" --lines 1 --bytes 1
refuse 2 "criteo and multislot" --format csv
refuse 2 "'clicks.txt' is too much" clicks.txt
refuse 1 "name another file with --out" --lines 1 --out /nowhere/clicks
if [ -c /dev/full ]; then
    refuse 1 "cannot write /dev/full" --lines 5000 --out /dev/full
    "$flotilla" datagen --lines 5000 >/dev/full 2>"$dir/said" &&
        fail "a full stdout is no failure"
    [ "$(grep -c 'cannot write stdout' "$dir/said")" -eq 1 ] ||
        fail "a full stdout is told so: $(cat "$dir/said")"
    [ -c /dev/full ] || fail "no /dev/full left"
fi
exit $failed
