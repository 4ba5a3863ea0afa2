#!/bin/sh
# test_launch_doors.sh FLEETRUN FLOTILLA MEMBER - who may look at a job of one
# machine, join it and end it: its owner, and nobody else.
fleetrun=$1 flotilla=$2 member=$3
. "$(dirname "$0")/kit.sh"
unset FLOTILLA_JOIN_TOKEN FLOTILLA_JOIN_TOKEN_FILE XDG_RUNTIME_DIR
keys=/tmp/flotilla-$(id -u)
stop=$dir/stop

# Nobody answers a stranger, who gives up after so long.
patience='--set connect_timeout_ms=2000'

# ask WORDS: the tool, with its exit code in $code and what it says in $dir/asked.
ask()
{
    timeout 30 $as "$flotilla" "$@" >"$dir/asked" 2>&1
    code=$?
}

# strange WORDS: a command that nobody answers. It gives up, and tells the name of
# the job to nobody who does not know it.
strange()
{
    heard=$(timeout 30 $as "$flotilla" $1 $patience 2>&1)
    [ $? -eq 1 ] || echo "$1 is answered: $heard"
    case $1 in
    *"$name"*) return ;;
    esac
    case $heard in
    *"$name"*) echo "$1 tells the job's name" ;;
    esac
}

# strangers COMMAND...: all at once, as each takes as long as its patience.
strangers()
{
    waits=
    for words; do
        strange "$words" >>"$dir/strange" &
        waits="$waits $!"
    done
    wait $waits
    [ ! -s "$dir/strange" ] || fail "$(cat "$dir/strange")"
}

# begin: a job of one server and one worker at port $port, which is up.
begin()
{
    rm -f "$stop"
    "$fleetrun" --log_dir="$dir/log" --servers=127.0.0.1:$port --worker_num=1 \
        "$member" "$stop" >"$dir/said" 2>&1 &
    launcher=$!
    until_true 20 is_up || { fail 'the job does not begin'; cat "$dir/said"; }
}

# Without the key one is a stranger, and waits.
is_up()
{
    [ -n "${FLOTILLA_JOIN_TOKEN-}" ] || [ -s "$keys/$port.key" ] || return 1
    as= ask status 127.0.0.1:$port
    [ $code -eq 0 ] && grep -q 'trainer 0' "$dir/asked"
}

finish()
{
    : >"$stop"
    wait $launcher || { fail "the job ends with $?"; cat "$dir/said"; }
}

port=7290
begin

# the_owner_looks_without_being_told_anything_but_the_address
as=
ask status localhost:$port
[ $code -eq 0 ] || fail "status by another name: $(cat "$dir/asked")"

# the_secret_is_in_a_file_of_the_owner_and_nowhere_else
[ "$(stat -c %a "$keys")" = 700 ] || fail 'others may look into the folder'
[ "$(stat -c %a "$keys/$port.key")" = 600 ] || fail 'others may read the key'
token=$(sed -n 1p "$keys/$port.key")
name=$(sed -n 2p "$keys/$port.key")
[ ${#token} -eq 64 ] || fail "the token is '$token'"
ps axww -o args >"$dir/commands"
grep -qF -e "$token" "$dir/commands" && fail 'the token is on a command line'
grep -rqF -e "$token" "$dir" && fail 'the token is in a log'

# the_look_token_looks_and_does_not_end
ask look-token 127.0.0.1:$port
look=$(cat "$dir/asked")
[ ${#look} -eq 64 ] && [ "$look" != "$token" ] || fail "look token '$look'"
ask status 127.0.0.1:$port --set look_token=$look --set job=$name
[ $code -eq 0 ] || fail "the look token does not look: $(cat "$dir/asked")"
ask shutdown 127.0.0.1:$port --set look_token=$look --set job=$name
[ $code -eq 1 ] && grep -q 'join token is needed' "$dir/asked" ||
    fail "the look token ends the job: $(cat "$dir/asked")"

# another_user_learns_nothing_reads_nothing_and_ends_nothing
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups \
    "$flotilla" version >/dev/null 2>&1; then
    as='setpriv --reuid=65534 --regid=65534 --clear-groups'
    # Even with the name of the job.
    strangers "status 127.0.0.1:$port" "shutdown 127.0.0.1:$port" \
        "look-token 127.0.0.1:$port" "status 127.0.0.1:$port --set job=$name" \
        "shutdown 127.0.0.1:$port --set job=$name"
    $as cat "$keys/$port.key" 2>/dev/null && fail 'another user reads the key'
    # As a worker that would read rows.
    timeout 60 env FLOTILLA_JOB="$name" FLOTILLA_CONNECT_TIMEOUT_MS=2000 \
        TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=0 PADDLE_TRAINERS_NUM=1 \
        PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:$port \
        $as "$member" /dev/null >"$dir/asked" 2>&1 &&
        fail 'another user joins the job'
    grep -q token "$dir/asked" || fail "joining: $(cat "$dir/asked")"
    kill -0 $launcher || fail 'another user has ended the job'
else
    echo 'skipped: another_user_learns_nothing needs root and setpriv'
fi
as=

# the_key_goes_with_the_job
finish
[ ! -e "$keys/$port.key" ] || fail 'the key is still there'

# the_owner_ends_a_job
port=7291
begin
ask shutdown 127.0.0.1:$port
[ $code -eq 0 ] || fail "the owner cannot end it: $(cat "$dir/asked")"
: >"$stop"
wait $launcher

# a_token_of_ones_own_is_taken_as_it_is
port=7292
export FLOTILLA_JOIN_TOKEN=mine FLOTILLA_JOB=own
begin
[ ! -e "$keys/$port.key" ] || fail 'a key beside the token of the environment'
(unset FLOTILLA_JOIN_TOKEN; ask shutdown 127.0.0.1:$port $patience
    [ $code -eq 1 ]) ||
    fail 'the end without the token'
(unset FLOTILLA_JOIN_TOKEN; ask status 127.0.0.1:$port
    [ $code -eq 0 ]) ||
    fail 'the owner cannot look at a job whose token was given'
finish
unset FLOTILLA_JOIN_TOKEN FLOTILLA_JOB

# a_folder_that_somebody_else_has_made_is_not_trusted
whole=$(cd "$(dirname "$fleetrun")" && pwd)/$(basename "$fleetrun")
other='setpriv --reuid=65533 --regid=65533 --clear-groups'
if [ "$(id -u)" -eq 0 ] && [ ! -e /tmp/flotilla-65533 ] &&
    $other "$whole" --help >"$dir/said" 2>&1; then
    mkdir "$dir/home"
    chmod 755 "$dir"
    chown 65533 "$dir/home"
    mkdir -m 777 /tmp/flotilla-65533
    port=7295
    (cd / && HOME=$dir/home $other "$whole" --log_dir="$dir/home/log" \
        --worker_num=1 --servers=127.0.0.1:$port sh -c 'ls "$HOME/.flotilla"') \
        >"$dir/said" 2>&1
    cat "$dir"/home/log/* | grep -q "$port.key" ||
        fail "no key in the home: $(cat "$dir/said" "$dir"/home/log/*)"
    [ -z "$(ls /tmp/flotilla-65533)" ] || fail "a key in a folder of another's"
    rmdir /tmp/flotilla-65533
else
    echo 'skipped: a_folder_that_somebody_else_has_made needs root, and a' \
        'launcher that others may run'
fi

# a_server_without_a_token_says_so_and_stays_on_the_loopback
ask server --servers 127.0.0.1:7293 --rank 0 --trainers 1 \
    --set connect_timeout_ms=100
grep -q 'server 0 has no join token' "$dir/asked" ||
    fail "nothing is said of the token: $(cat "$dir/asked")"
ask server --servers 127.0.0.1:7293 --listen 0.0.0.0:7293 --rank 0 \
    --trainers 1 --set connect_timeout_ms=100
[ $code -eq 1 ] && grep -q 'set allow_no_token=true' "$dir/asked" ||
    fail "it listens for all: $(cat "$dir/asked")"
ask server --servers 127.0.0.1:7293 --listen 0.0.0.0:7293 --rank 0 \
    --trainers 1 --set connect_timeout_ms=100 --set allow_no_token=true
grep -q 'listens at' "$dir/asked" || fail "told to, it does not listen"

# a_token_file_is_handed_to_the_processes
(umask 077 && echo shared >"$dir/shared")
port=7294
"$fleetrun" --token_file="$dir/shared" --log_dir="$dir/log" --worker_num=1 \
    --servers=127.0.0.1:$port "$member" "$dir/shared" >"$dir/said" 2>&1 ||
    fail "a token of a file: $(cat "$dir/said")"
[ ! -e "$keys/$port.key" ] || fail 'a key beside the file'
run --token_file="$dir/none" --server_num=1 --worker_num=1 true
expect_code 1 'no such token file'
expect_said '(--token_file)'

# a_secret_that_others_can_read_is_refused
echo secret >"$dir/token"
chmod 644 "$dir/token"
ask status 127.0.0.1:7293 --set join_token_file="$dir/token"
grep -q 'chmod 600' "$dir/asked" || fail "a public secret: $(cat "$dir/asked")"

exit $failed
