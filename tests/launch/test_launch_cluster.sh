#!/bin/sh
# test_launch_cluster.sh FLEETRUN - inside of a task of a scheduler the launcher
# becomes the one process of that task.
fleetrun=$1
. "$(dirname "$0")/kit.sh"

program show <<'P'
echo "$me $POD_IP:$PADDLE_PORT of $PADDLE_TRAINERS_NUM"
echo "servers $PADDLE_PSERVERS_IP_PORT_LIST"
echo "workers $PADDLE_TRAINER_ENDPOINTS"
echo "job $FLOTILLA_JOB, process $$"
P

# task VARIABLES... -- ARGUMENTS: the launcher as one task.
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

slurm='SLURM_STEP_ID=4 SLURM_JOB_ID=77 SLURM_NTASKS=5
    SLURM_JOB_NODELIST=n[08-10],gpu SLURM_STEP_TASKS_PER_NODE=2,1(x3)'
s5='--server_num=2 --worker_num=3 --start_port=6170'

# tasks_of_slurm_get_hosts_from_the_list_of_nodes
task $slurm SLURM_PROCID=0 SLURM_NODEID=0 -- $s5
expect_code 0 slurm
expect_said 'server.0 n08:6170 of 3'
expect_said 'servers n08:6170,n08:6171'
expect_said 'workers n09:6172,n10:6173,gpu:6174'
expect_said 'job slurm-77-4'
task $slurm SLURM_PROCID=4 SLURM_NODEID=3 -- $s5
expect_said 'worker.2 gpu:6174 of 3'

# the_task_becomes_the_program
env $slurm SLURM_PROCID=2 SLURM_NODEID=1 "$fleetrun" $s5 "$dir/show" \
    >"$dir/said" 2>&1 &
pid=$!
wait $pid || fail "the task failed"
expect_said "process $pid"

# without_a_port_the_name_of_the_job_chooses_it
task $slurm SLURM_PROCID=4 SLURM_NODEID=3 -- --server_num=2
expect_code 0 'ports of a job'
first=$(grep servers "$dir/said")
task $slurm SLURM_PROCID=2 SLURM_NODEID=1 -- --server_num=2
[ "$(grep servers "$dir/said")" = "$first" ] || fail "tasks disagree on ports"

# what_slurm_says_is_checked
task $slurm SLURM_PROCID=4 SLURM_NODEID=1 -- $s5
expect_code 1 'another distribution'
expect_said 'srun --distribution=block'
task $slurm SLURM_PROCID=4 SLURM_NODEID=3 -- --server_num=1 --worker_num=2
expect_code 1 'number of tasks'
expect_said 'Slurm has started 5 tasks, but 1 servers and 2 workers make 3'
task $slurm SLURM_PROCID=x -- $s5
expect_code 1 'no number'
expect_said 'SLURM_PROCID=x is no whole number'
task $slurm SLURM_PROCID=0 SLURM_NODEID=0 -- $s5 --max_restart=1
expect_code 2 'restart in a task'

# a_script_of_sbatch_and_a_single_task_start_everything_themselves
for outer in 'SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=3' \
    'SLURM_STEP_ID=0 SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=1'; do
    rm -f "$dir"/pids.*
    task $outer -- --server_num=1 --worker_num=2 --log_dir="$dir/log"
    expect_code 0 "$outer"
    have_begun 3 || fail "not all were started: $outer"
done

# tasks_of_mpi_on_one_machine_need_no_hosts
ompi='OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3
    PMIX_NAMESPACE=prterun-here-9@1 SLURM_STEP_ID=0 SLURM_PROCID=0
    SLURM_NTASKS=1 SLURM_JOB_NODELIST=far'
task $ompi OMPI_COMM_WORLD_RANK=2 -- --server_num=1 --worker_num=2
expect_code 0 'Open MPI'
expect_said 'worker.1 127.0.0.1:'
expect_said 'job mpi-prterun-here-9@1'
task PMI_RANK=0 PMI_SIZE=3 MPI_LOCALNRANKS=3 -- --server_num=1 \
    --start_port=7210
expect_code 0 MPICH
expect_said 'server.0 127.0.0.1:7210 of 2'

# tasks_of_mpi_on_several_machines_are_told_where_the_servers_are
task PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=1 -- --server_num=1
expect_code 1 'hosts are missing'
expect_said 'give --servers=host:port'
task PMI_RANK=1 PMI_SIZE=3 MPI_LOCALNRANKS=1 -- --servers=far:6170
expect_code 0 'servers are given'
expect_said 'servers far:6170'
task PMI_RANK=0 PMI_SIZE=3 MPI_LOCALNRANKS=1 -- --servers=192.0.2.1:6170
expect_code 1 'another machine'
expect_said 'which is not this machine'

# tasks_of_kubernetes_have_an_index_and_a_pattern_of_hosts
task JOB_COMPLETION_INDEX=1 FLOTILLA_HOSTS='ctr-{}.ctr' -- --server_num=1 \
    --worker_num=2
expect_code 0 Kubernetes
expect_said 'worker.0 ctr-1.ctr:6171 of 2'
expect_said 'servers ctr-0.ctr:6170'
expect_said 'workers ctr-1.ctr:6171,ctr-2.ctr:6172'
task JOB_COMPLETION_INDEX=2 FLOTILLA_HOSTS=a,b,c -- --server_num=1
expect_code 0 'a list of hosts'
expect_said 'worker.1 c:6172 of 2'
task JOB_COMPLETION_INDEX=2 -- --server_num=1 --worker_num=2
expect_code 1 'no hosts'
expect_said 'FLOTILLA_HOSTS'
task JOB_COMPLETION_INDEX=3 FLOTILLA_HOSTS='ctr-{}.ctr' -- --server_num=1 \
    --worker_num=2
expect_code 1 'one task too many'

# logs_of_a_task_go_where_they_are_asked_to
task JOB_COMPLETION_INDEX=1 FLOTILLA_HOSTS='ctr-{}.ctr' -- --server_num=1 \
    --worker_num=2 --log_dir="$dir/of/task"
expect_code 0 'logs of a task'
grep -q 'worker.0 ctr-1.ctr' "$dir/of/task/workerlog.0" || fail "log of a task"
exit $failed
