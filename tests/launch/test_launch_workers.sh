#!/bin/sh
# test_launch_workers.sh FLEETRUN - jobs without servers: how many workers, where,
# with which ports, and what they find in their environment.
fleetrun=$1
. "$(dirname "$0")/kit.sh"

program show <<'P'
env | grep -E '^(TRAINING_ROLE|PADDLE_|POD_IP|FLOTILLA_JOB)' | sort \
    >"$dir/env.$me"
echo "$me at $PADDLE_CURRENT_ENDPOINT of $PADDLE_TRAINER_ENDPOINTS"
P

value()
{
    sed -n "s/^$2=//p" "$dir/env.$1"
}

# without_servers_every_worker_has_an_address_of_its_own
run --worker_num=3 "$dir/show"
expect_code 0 'three workers'
expect_said '3 workers; logs in'
for i in 0 1 2; do
    [ "$(value worker.$i TRAINING_ROLE)" = TRAINER ] || fail "role of worker $i"
    [ "$(value worker.$i PADDLE_TRAINER_ID)" = $i ] || fail "id of worker $i"
    [ "$(value worker.$i PADDLE_RANK_IN_NODE)" = $i ] || fail "rank of worker $i"
    [ "$(value worker.$i PADDLE_TRAINERS_NUM)" = 3 ] || fail "number of workers"
    grep -q PSERVER "$dir/env.worker.$i" && fail "worker $i knows of servers"
    value worker.$i PADDLE_TRAINER_ENDPOINTS | cut -d, -f$((i + 1)) |
        grep -qx "$(value worker.$i PADDLE_CURRENT_ENDPOINT)" ||
        fail "worker $i is not where the list says"
done
[ "$(value worker.0 PADDLE_TRAINER_ENDPOINTS | tr , '\n' | sort -u | wc -l)" = \
    3 ] || fail "an address is there twice"

# the_names_that_users_of_other_launchers_know
run --nproc_per_node=2 --run_mode=collective "$dir/show"
expect_code 0 nproc_per_node
expect_said '2 workers; logs in'
run --worker_num=1 "$dir/show"
expect_code 0 'one worker'
expect_said '1 worker; logs in'

# each_machine_starts_its_own_workers
for ip in 127.0.0.1 127.0.0.2; do
    rm -f "$dir"/env.*
    run --ips=127.0.0.1,127.0.0.2 --node_ip=$ip --nproc_per_node=2 \
        --start_port=9300 "$dir/show"
    expect_code 0 "ips, $ip"
    case $ip in
    127.0.0.1) list='env.worker.0 env.worker.1' ;;
    127.0.0.2) list='env.worker.2 env.worker.3' ;;
    esac
    [ "$(cd "$dir" && echo env.*)" = "$list" ] ||
        fail "at $ip there are $(cd "$dir" && echo env.*)"
    cat "$dir"/env.* | grep -E 'TRAINER_ENDPOINTS|JOB' | sort -u >"$dir/job.$ip"
done
cmp "$dir/job.127.0.0.1" "$dir/job.127.0.0.2" || fail "two machines, two jobs"
hosts=127.0.0.1:9300,127.0.0.1:9301,127.0.0.2:9300,127.0.0.2:9301
grep -qx "PADDLE_TRAINER_ENDPOINTS=$hosts" "$dir/job.127.0.0.1" ||
    fail "ports of machines"
[ "$(value worker.3 PADDLE_RANK_IN_NODE)" = 1 ] || fail "rank in its machine"
run --workers=127.0.0.1:9310,127.0.0.1:9320 "$dir/show"
expect_code 0 workers
[ "$(value worker.1 PADDLE_CURRENT_ENDPOINT)" = 127.0.0.1:9320 ] ||
    fail "ports that were given"
run --cluster_node_ips=127.0.0.1,127.0.0.2 --node_ip=127.0.0.2 --worker_num=1 \
    --start_port=9330 "$dir/show"
expect_code 0 cluster_node_ips
[ "$(value worker.1 PADDLE_TRAINER_ENDPOINTS)" = \
    127.0.0.1:9330,127.0.0.2:9330 ] || fail "a worker on each node"

# tasks_of_schedulers_are_workers
task()
{
    set_these=
    while [ "$1" != -- ]; do
        set_these="$set_these $1"
        shift
    done
    shift
    timeout 30 env $set_these "$fleetrun" "$@" "$dir/show" >"$dir/said" 2>&1
    code=$?
}
task SLURM_STEP_ID=4 SLURM_JOB_ID=77 SLURM_NTASKS=3 SLURM_PROCID=2 \
    SLURM_NODEID=1 'SLURM_JOB_NODELIST=n[08-09]' SLURM_STEP_TASKS_PER_NODE=2,1 \
    -- --start_port=6170
expect_code 0 Slurm
expect_said 'worker.2 at n09:6172 of n08:6170,n08:6171,n09:6172'
task OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 \
    OMPI_COMM_WORLD_RANK=1 PMIX_NAMESPACE=here-9@1 -- --start_port=9340
expect_code 0 'Open MPI'
expect_said 'worker.1 at 127.0.0.1:9341 of 127.0.0.1:9340,127.0.0.1:9341'
task OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
    OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=here-9@1 -- --log_dir="$dir/log"
expect_code 0 'the only task'
expect_said '1 worker; logs in'
task OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
    OMPI_COMM_WORLD_RANK=0 -- --worker_num=2 --log_dir="$dir/log"
expect_code 0 'the only task, which starts two'
expect_said '2 workers; logs in'
task JOB_COMPLETION_INDEX=1 'FLOTILLA_HOSTS=ctr-{}.ctr' -- --worker_num=2
expect_code 0 Kubernetes
expect_said 'worker.1 at ctr-1.ctr:6171 of ctr-0.ctr:6170,ctr-1.ctr:6171'
task PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=1 --
expect_code 1 'hosts are missing'
expect_said 'on which hosts the workers are: give --workers=host:port'
task JOB_COMPLETION_INDEX=1 'FLOTILLA_HOSTS=ctr-{}.ctr' -- --nproc_per_node=2
expect_code 2 'several processes of a task'
expect_said '--nproc_per_node is not taken inside of a task of Kubernetes'

# what_contradicts_is_refused_with_the_reason
refuse()
{
    want=$1 text=$2
    shift 2
    rm -f "$dir"/pids.*
    run "$@"
    expect_code "$want" "$*"
    expect_said "$text"
    have_begun 1 && fail "$*: something was started"
}
refuse 2 '--worker_num is missing' "$dir/show"
refuse 2 '--nproc_per_node is for jobs without servers' --server_num=1 \
    --nproc_per_node=2 "$dir/show"
refuse 2 '--ips is for jobs without servers' --server_num=1 --ips=127.0.0.1 \
    "$dir/show"
refuse 2 'both say where workers are' --ips=127.0.0.1 --workers=127.0.0.1 \
    "$dir/show"
refuse 2 'with --ips give --nproc_per_node' --ips=127.0.0.1 --worker_num=2 \
    "$dir/show"
refuse 2 'they are the same; give one' --worker_num=2 --nproc_per_node=3 \
    "$dir/show"
refuse 2 '--ips: 127.0.0.1 has a port' --ips=127.0.0.1:6170 "$dir/show"
refuse 2 'not started again alone' --worker_num=2 --max_restart=1 "$dir/show"
refuse 2 'have the same address' --workers=127.0.0.1:1,127.0.0.1:1 "$dir/show"

# a_worker_whose_port_is_taken_is_told_before_anything_starts
if command -v python3 >/dev/null; then
    python3 -c 'import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 9351))
s.listen()
print("listens", flush=True)
time.sleep(60)' >"$dir/listener" &
    listener=$!
    until_true 20 grep -q listens "$dir/listener" || fail "nobody listens"
    refuse 1 'port 9351 of worker 1 is in use' --worker_num=2 \
        --start_port=9350 "$dir/show"
    kill $listener
fi

# a_worker_that_fails_ends_the_job_with_its_status
program ends <<'P'
[ "$me" = worker.1 ] && exit 3
exec sleep 60
P
rm -f "$dir"/pids.*
run --worker_num=3 "$dir/ends"
expect_code 3 'a worker fails'
expect_said 'worker 1 ended with exit status 3'
expect_said 'ending the others: 2 workers'
until_true 10 all_gone || fail "a worker is left"
exit $failed
