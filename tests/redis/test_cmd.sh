#!/bin/sh
# test_cmd.sh FLOTILLA CLICK - `flotilla export --redis` and `predict --redis`
# with a real Redis; CLICK is the example that saves a model.
flotilla=$(realpath "$1")
click=$(realpath "$2")
work=$(mktemp -d) || exit 1
trap 'kill "$redis" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1

fail()
{
    echo "test_cmd: $*" >&2
    exit 1
}

export REDISCLI_AUTH=sesame
redis-server --port 0 --unixsocket "$work/redis" --save '' \
    --requirepass sesame --loglevel warning >redis.log 2>&1 &
redis=$!
tries=0
until redis-cli -s "$work/redis" ping 2>/dev/null | grep -q PONG; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || fail "Redis does not answer: $(cat redis.log)"
    sleep 0.02
done

"$click" model || fail "no model"
printf '2 2 4 1 6 1 0.2\n1 3 1 6 1 0.2\n1 99999 1 6 1 0.2\n' >records.txt
"$flotilla" predict model --data records.txt >files.txt || fail "predict"

"$flotilla" predict model --data records.txt --redis "unix:$work/redis" \
    2>error.txt && fail "scores without rows"
grep -q 'has no model model' error.txt || fail "$(cat error.txt)"

"$flotilla" export model --redis "unix:$work/redis" --redis-name click \
    >report.txt || fail "export"
grep -q '^[1-9][0-9]* rows, ' report.txt || fail "$(cat report.txt)"
"$flotilla" predict model --data records.txt --redis "unix:$work/redis" \
    --redis-name click >redis.txt || fail "predict from Redis"
cmp files.txt redis.txt || fail "scores differ"

# What is there is what was exported, until a shard is lost.
"$flotilla" consistency model --against "redis://unix:$work/redis" \
    --redis-name click --data records.txt >said.txt || fail "$(cat said.txt)"
grep -q '^rows: the same, [1-9]' said.txt || fail "$(cat said.txt)"
redis-cli -s "$work/redis" --scan --pattern 'flotilla:click:*:items:*' |
    sort | head -n 1 >shard.txt
redis-cli -s "$work/redis" del "$(cat shard.txt)" >/dev/null
"$flotilla" consistency model --against "redis://unix:$work/redis" \
    --redis-name click --data records.txt >said.txt
[ $? = 3 ] || fail "a lost shard: $(cat said.txt)"
grep -q '^rows: different, .*: table items row [0-9]*: there is none online (Redis)' \
    said.txt || fail "$(cat said.txt)"

"$flotilla" export model --redis nowhere 2>error.txt && fail "no address"
grep -q 'is no address of Redis' error.txt || fail "$(cat error.txt)"
"$flotilla" export model --tsv emb --redis-name x 2>error.txt
[ $? = 2 ] || fail "--redis-name without --redis"
"$flotilla" export model --redis "unix:$work/none" 2>error.txt && fail "none"
grep -q "Redis at unix:$work/none" error.txt || fail "$(cat error.txt)"
exit 0
