#!/bin/sh
# test_doctor.sh FLOTILLA - the doctor finds what is wrong, names the next step
# and ends with 1 when something is bad.
set -u
flotilla=$(realpath "$1")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
failed=0

fail()
{
    echo "FAIL $*"
    cat said
    failed=1
}

# doctor CODE [VARIABLE=VALUE]...: runs it with these variables.
doctor()
{
    code=$1
    shift
    env "$@" "$flotilla" doctor >said 2>&1
    got=$?
    [ $got -eq "$code" ] || fail "$*: exit code $got, not $code"
}

# says PATTERN: a line of it.
says()
{
    grep -q -e "$1" said || fail "'$1' is missing"
}

# a_good_machine_and_no_job
doctor 0 LANG=C
says '^ok    flotilla  '
says '^ok    role  *a single process'
says '^ok    settings'
says '^0 bad, '
grep -q '^bad' said && fail "something is bad here"
for what in instructions cores memory "huge pages" "open files" \
    "locked memory" "this directory" /tmp timer clock; do
    says "^[okwarn]*  *$what  "
done

# every_line_that_is_not_ok_has_a_next_step
doctor 1 CPU_NUM=many
says '^bad   settings .*CPU_NUM'
awk '/^(warn|bad)/ { want = 1; next }
want && !/^ *-> ./ { bad = 1 }
{ want = 0 }
END { exit bad }' said || fail "a line has no next step"

# limits
sh -c 'ulimit -n 32 && exec "$1" doctor' sh "$flotilla" >said 2>&1
[ $? -eq 1 ] || fail "32 open files are enough"
says '^bad   open files'

# places, unless nothing is forbidden to us
mkdir closed
chmod 555 closed
if ! touch closed/x 2>/dev/null; then
    (cd closed && "$flotilla" doctor) >said 2>&1
    [ $? -eq 1 ] || fail "a directory that is closed is good"
    says '^bad   this directory'
fi

# roles
list=PADDLE_PSERVERS_IP_PORT_LIST
doctor 0 TRAINING_ROLE=TRAINER $list=127.0.0.1:1 PADDLE_TRAINERS_NUM=2 \
    PADDLE_TRAINER_ID=1
says '^ok    role  *worker 1 of 2, with 1 servers'
says '^warn  port  *127.0.0.1:1 does not answer'
doctor 1 TRAINING_ROLE=TRAINER $list=127.0.0.1:1 PADDLE_TRAINERS_NUM=2
says '^bad   role  .*PADDLE_TRAINER_ID'
doctor 1 TRAINING_ROLE=PSERVER $list=no-such-host.invalid:1,127.0.0.1:2 \
    PADDLE_TRAINERS_NUM=1 POD_IP=127.0.0.1 PADDLE_PORT=2
says '^bad   port  *no-such-host.invalid:1'

# a_port_that_is_taken_is_bad_for_its_server_and_good_for_a_worker
port=7301
"$flotilla" server --servers 127.0.0.1:$port --rank 0 --trainers 1 \
    2>server.txt & server=$!
n=0
while ! grep -q listens server.txt && kill -0 $server 2>/dev/null &&
    [ $n -lt 100 ]; do
    n=$((n + 1))
    sleep 0.1
done
doctor 1 TRAINING_ROLE=PSERVER $list=127.0.0.1:$port PADDLE_TRAINERS_NUM=1 \
    POD_IP=127.0.0.1 PADDLE_PORT=$port
says '^ok    role  *server 0 of 1'
says "^bad   port  *127.0.0.1:$port, where this server"
doctor 0 TRAINING_ROLE=TRAINER $list=127.0.0.1:$port PADDLE_TRAINERS_NUM=1 \
    PADDLE_TRAINER_ID=0
says "^ok    port  *127.0.0.1:$port answers"
"$flotilla" shutdown 127.0.0.1:$port || fail "the server does not end"
wait $server
doctor 0 TRAINING_ROLE=PSERVER $list=127.0.0.1:$port PADDLE_TRAINERS_NUM=1 \
    POD_IP=127.0.0.1 PADDLE_PORT=$port
says "^ok    port  *127.0.0.1:$port is free"

# schedulers
doctor 0 SLURM_PROCID=3
says '^ok    scheduler  *task 3 of Slurm'

"$flotilla" doctor now >said 2>&1
[ $? -eq 2 ] || fail "too much is not refused"
exit $failed
