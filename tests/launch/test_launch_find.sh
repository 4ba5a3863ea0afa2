#!/bin/sh
# test_launch_find.sh FLEETRUN FLOTILLA MEMBER - the jobs of a user on this machine
# are found without an address: by their notes, which come and go with them.
fleetrun=$1 flotilla=$2 member=$3
. "$(dirname "$0")/kit.sh"
unset FLOTILLA_JOIN_TOKEN FLOTILLA_JOIN_TOKEN_FILE
export FLOTILLA_RUNTIME_DIR="$dir/run"

# ask WORDS: the tool, with its exit code in $code and what it says in $dir/asked.
ask()
{
    timeout 60 "$flotilla" "$@" >"$dir/asked" 2>&1
    code=$?
}

expect_asked()
{
    [ $code -eq "$1" ] || fail "$3: exit code $code: $(cat "$dir/asked")"
    grep -qe "$2" "$dir/asked" || fail "$3: $(cat "$dir/asked")"
}

# begin NAME WORKERS: a job that reports until it is told to stop. The tool finds
# it as soon as the note is there, and waits for its server.
begin()
{
    rm -f "$dir/stop.$1"
    FLOTILLA_JOB=$1 "$fleetrun" --log_dir="$dir/log.$1" --server_num=1 \
        --worker_num="$2" "$member" "$dir/stop.$1" >"$dir/said.$1" 2>&1 &
    eval "launcher_$1=\$!"
    until_true 20 has_note "$1" || fail "no note of $1: $(cat "$dir/said.$1")"
}

has_note()
{
    grep -qse "\"name\":\"$1\"" "$dir"/run/*.job
}

finish()
{
    : >"$dir/stop.$1"
    eval "wait \$launcher_$1" || fail "$1 ends with $?: $(cat "$dir/said.$1")"
}

reports()
{
    ask status "$1"
    grep -q 'all trainers together: .* samples/s' "$dir/asked"
}

# nothing_runs_and_that_is_said
ask status
expect_asked 1 'no job of yours runs on this machine' 'nothing runs'
ask status --json
expect_asked 0 '^{"jobs":\[\]}$' 'an empty list'

# the_only_job_is_shown_without_an_address
begin night 2
ask status --wait 20
expect_asked 0 '^job night at 127.0.0.1:[0-9]* by fleetrun ([0-9]*): .*member' \
    'the only job'
grep -q '^trainer 1 ' "$dir/asked" || fail "no members: $(cat "$dir/asked")"

# the_rate_of_the_job_is_apart_from_those_of_its_workers
until_true 30 reports night || fail "no rate: $(cat "$dir/asked")"

# what_lies_there_is_for_its_owner_alone
[ "$(stat -c %a "$dir/run")" = 700 ] || fail 'others may look into the folder'
for note in "$dir"/run/*.job; do
    [ "$(stat -c %a "$note")" = 600 ] || fail "others may read $note"
done
token=$(sed -n 1p "$dir"/run/*.key)
grep -qF -e "$token" "$dir"/run/*.job && fail 'the note has the join token'

# several_are_listed_and_one_is_told_by_the_beginning_of_its_name
begin nightly 1
ask status
expect_asked 0 '^nightly  *127.0.0.1:' 'a list'
expect_asked 0 '^night  *127.0.0.1:' 'a list'
ask status --json
expect_asked 0 '"name":"nightly","address":"127.0.0.1:' 'a list for programs'
ask status nightl --wait 20
expect_asked 0 '^trainer 0 ' 'the beginning of a name'
ask status night --wait 20
expect_asked 0 '^trainer 1 ' 'a name that another begins with'
ask status nigh
expect_asked 1 "2 jobs of yours begin with 'nigh'" 'two of them'
ask status mightly
expect_asked 1 'did you mean nightly?' 'a wrong name'
ask look-token nightly
expect_asked 0 '^[0-9a-f]*$' 'a look token by name'

# the_note_goes_with_the_job
finish night
has_note night && fail 'the note of night is still there'

# a_note_whose_process_is_no_more_is_removed
old=$(ls "$dir"/run/*.job)
sed 's/"process_born":[0-9]*/"process_born":1/; s/nightly/older/' "$old" \
    >"$dir/run/1.old.job"
ask status --json
grep -q older "$dir/asked" && fail "a job of old: $(cat "$dir/asked")"
[ ! -e "$dir/run/1.old.job" ] || fail 'a note of old stays'

# what_is_no_note_is_left_alone
echo '{"format":"flotilla-job-9"}' >"$dir/run/new.job"
ask status --json
expect_asked 0 nightly 'beside a note of another version'
[ -e "$dir/run/new.job" ] || fail 'a note of another version is removed'
rm "$dir/run/new.job"

# a_killed_launcher_leaves_no_job_behind
kill -9 $launcher_nightly
wait $launcher_nightly 2>/dev/null
ask status
expect_asked 1 'no job of yours' 'a killed launcher'

# a_server_by_hand_tells_of_itself_and_a_token_of_ones_own_is_not_needed
FLOTILLA_JOIN_TOKEN=secret FLOTILLA_JOB=hand "$flotilla" server \
    --servers 127.0.0.1:7296 --rank 0 --trainers 1 2>"$dir/server" &
server=$!
until_true 20 has_note hand || fail "no note: $(cat "$dir/server")"
ask status
expect_asked 0 '^job hand at 127.0.0.1:7296 by server 0 ([0-9]*): .* server ' \
    'a server by hand'
ask status localhost:7296
expect_asked 0 '^trainer 0 ' 'by another name of the machine'
ask shutdown hand --set connect_timeout_ms=500
expect_asked 1 'the proof of the token' 'who may look cannot end it'
FLOTILLA_JOIN_TOKEN=secret ask shutdown hand --set job=hand
[ $code -eq 0 ] || fail "who knows the token: $(cat "$dir/asked")"
wait $server || fail "the server ends with $?: $(cat "$dir/server")"
has_note hand && fail 'the note of the server is still there'

# where_nobody_listens_that_is_said_at_once
ask status 127.0.0.1:1 --set connect_timeout_ms=86400000
expect_asked 1 'server 0 at 127.0.0.1:1: nobody listens there' 'nobody listens'

# a_folder_that_others_may_look_into_is_not_trusted
chmod 755 "$dir/run"
ask status --json
expect_asked 0 '^{"jobs":\[\]}$' 'an open folder'

exit $failed
