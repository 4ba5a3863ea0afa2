#!/bin/sh
# test_cmd.sh FLOTILLA CLICK - `flotilla consistency`: what it prints, and its
# exit codes. CLICK is the example that saves a model.
flotilla=$(realpath "$1")
click=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail()
{
    echo "test_cmd: $*" >&2
    exit 1
}

# expect CODE WORDS ARGUMENT... - the command ends so and says this.
expect()
{
    want=$1 words=$2
    shift 2
    "$flotilla" consistency "$@" >said 2>&1
    code=$?
    [ $code = "$want" ] || fail "$*: exit $code and not $want: $(cat said)"
    grep -q -e "$words" said || fail "$*: no '$words' in: $(cat said)"
}

"$click" model >click.txt 2>&1 || fail "$(cat click.txt)"
"$click" other --steps 7 >click.txt 2>&1 || fail "$(cat click.txt)"
printf '2 2 4 1 6 1 0.2\n1 3 1 6 1 0.2\n1 99999 1 6 1 0.2\n' >records.txt

expect 0 '^names: the same, [1-9][0-9]* names$' model --against predictor \
    --data records.txt
[ "$(wc -l <said)" = 6 ] || fail "six lines: $(cat said)"
grep -q '^program: the same, [1-9][0-9]* operators$' said || fail "$(cat said)"
grep -q '^scores: the same, 3 records, largest difference 0$' said ||
    fail "$(cat said)"
expect 0 '^rows: the same' model --against "$work/model" --data records.txt \
    --threads 2 --batch 1
expect 3 '^rows: different, ' model --against other --data records.txt
grep -q '^parameters: different, .*variable fc_0.w_0\[0,0\]: ' said ||
    fail "$(cat said)"
grep -q '^scores: different, .*record 0, ' said || fail "$(cat said)"
expect 0 '^rows: the same' model --against model --data records.txt --sample 5
[ "$(sed -n 's/^rows: the same, \(.*\) rows$/\1/p' said)" -lt 30 ] ||
    fail "a sample: $(cat said)"

expect 2 'against what' model --data records.txt
expect 2 'which servers' model --against servers --data records.txt
expect 2 'rows come from one place' model --against redis://x:1 \
    --servers y:1 --data records.txt
expect 2 'where is the data' model --against predictor
expect 1 'nowhere' model --against nowhere --data records.txt
expect 1 'nowhere' nowhere --against model --data records.txt
expect 1 '127.0.0.1:1' model --against servers://127.0.0.1:1 \
    --data records.txt --set connect_timeout_ms=100
expect 1 'no.txt' model --against predictor --data no.txt
exit 0
