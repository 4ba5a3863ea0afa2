# collective_kit.sh - jobs of workers alone, for tests that have sourced kit.sh and
# set collective, the program of collective.c.

# by_hand RANK LIST WORDS...: worker RANK of the list, in the background, as a
# scheduler starts it; its process is pid_RANK, what it says is in said.RANK.
by_hand()
{
    rank=$1 its_list=$2
    shift 2
    count=$(echo "$its_list" | tr , '\n' | wc -l)
    FLOTILLA_JOB=hand-$$ PADDLE_TRAINER_ENDPOINTS=$its_list \
        PADDLE_TRAINER_ID=$rank PADDLE_TRAINERS_NUM=$count \
        "$collective" "$@" >"$dir/said.$rank" 2>&1 &
    eval "pid_$rank=$!"
    echo $! >>"$dir/pids.$rank"
}

# free_list N: addresses for N workers, as the launcher finds them.
free_list()
{
    "$fleetrun" --worker_num="$1" --print_config=true --log_dir="$dir/ports" \
        true 2>/dev/null |
        sed -n 's/^worker [0-9]*  *//p' | tr '\n' , | sed 's/,$//'
}

# status_of RANK: waits for it; its exit status in $code.
status_of()
{
    eval "wait \$pid_$1"
    code=$?
}

# says RANK TEXT: what it has said so far.
says()
{
    grep -qF -e "$2" "$dir/said.$1"
}

# makes_steps RANK
makes_steps()
{
    grep -q "step 2 " "$dir/said.$1"
}

expect_said_by()
{
    until_true 20 says "$1" "$2" ||
        fail "worker $1 does not say '$2': $(cat "$dir/said.$1")"
}

# expect_failed RANK: it ends by itself, not well.
expect_failed()
{
    status_of "$1"
    [ "$code" -ne 0 ] && [ "$code" -lt 128 ] ||
        fail "worker $1 ends with $code: $(cat "$dir/said.$1")"
}
