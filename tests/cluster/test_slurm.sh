#!/bin/sh
# test_slurm.sh MEMBER FLEETRUN CTR_DNN FLOTILLA JOB_SBATCH - a Slurm of two
# nodes, each in a network namespace, with a controller and a munge of its own.
. "$(dirname "$0")/kit.sh"
member=$1
fleetrun=$2
ctr_dnn=$3
flotilla=$4
job_sbatch=$5
needs munged slurmctld slurmd srun sbatch
make_network
make_host n1 10.77.0.1
make_host n2 10.77.0.2

# --- Slurm ----------------------------------------------------------------

mkdir slurm slurm/state
dd if=/dev/urandom of=slurm/key bs=1024 count=1 2>/dev/null
chmod 600 slurm/key
(
    cd slurm && exec munged --force --key-file="$dir/slurm/key" \
        --log-file="$dir/slurm/munge.log" --pid-file="$dir/slurm/munge.pid" \
        --seed-file="$dir/slurm/seed" --socket="$dir/slurm/munge.socket"
) || skip "munged does not start: $(tail -n 1 slurm/munge.log)"

# No plugin needs control groups; version 1 of them is not looked for before.
echo 'CgroupPlugin=cgroup/v1' >slurm/cgroup.conf
cat >slurm/slurm.conf <<C
ClusterName=test
SlurmctldHost=control
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/slurm/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
KillWait=2
StateSaveLocation=$dir/slurm/state
SlurmctldPidFile=$dir/slurm/controller.pid
SlurmctldLogFile=$dir/slurm/controller.log
SlurmdPidFile=$dir/slurm/%n.pid
SlurmdLogFile=$dir/slurm/%n.log
SlurmdSpoolDir=$dir/slurm/%n.spool
NodeName=n1,n2 CPUs=16
PartitionName=all Nodes=n1,n2 Default=YES State=UP
C
export SLURM_CONF="$dir/slurm/slurm.conf"

nodes_are_idle()
{
    [ "$(sinfo -h -N -o '%T' 2>/dev/null | sort | uniq -c | xargs)" = "2 idle" ]
}

slurmctld >slurm/said 2>&1
for node in n1 n2; do
    ip netns exec $node slurmd -N $node >>slurm/said 2>&1
done
if ! until_true 30 nodes_are_idle; then
    tail -n 5 slurm/said slurm/*.log
    skip "Slurm does not start here"
fi

# --- tests ----------------------------------------------------------------

# run ARGUMENTS: srun, with its exit code in $code, all that is said in said.
run()
{
    timeout -k 5 60 srun "$@" >said 2>&1
    code=$?
}

expect_good()
{
    [ $code -eq 0 ] || fail "$1: exit code $code: $(tail -n 20 said)"
    expect_none_left member fleetrun
}

# a_job_of_three_tasks_on_one_node
run -N 1 -n 3 "$fleetrun" --server_num=1 --worker_num=2 "$member" 50 0
expect_good 'one node'
wanted=$(sed -n 's/^worker 0 done //p' said)
[ -n "$wanted" ] || fail "worker 0 says nothing at its end: $(cat said)"

# the_same_job_over_two_nodes_has_the_same_result
run -N 2 -n 3 --distribution=block "$fleetrun" --server_num=1 --worker_num=2 \
    --log_dir=logs "$member" 50 0
expect_good 'two nodes'
expect logs/workerlog.0 "worker 0 done $wanted"
expect logs/workerlog.1 "worker 1 done $wanted"
expect logs/serverlog.0 'listens at n1:'

# workers_alone_over_two_nodes_come_to_it_as_well
run -N 2 -n 2 "$fleetrun" --log_dir=alone "$member" 50 0
expect_good 'workers alone'
expect alone/workerlog.0 "worker 0 done $wanted"
expect alone/workerlog.1 "worker 1 done $wanted"

# tasks_that_slurm_prepares_for_mpi_are_the_same
run --mpi=pmi2 -N 2 -n 3 "$fleetrun" --server_num=1 --worker_num=2 "$member" \
    50 0
expect_good 'pmi2'
expect said "worker 0 done $wanted"

# a_failing_worker_fails_the_job
cat >faulty <<F
#!/bin/sh
[ "\$TRAINING_ROLE \$PADDLE_TRAINER_ID" = "TRAINER 1" ] && exit 3
exec "$member" 100000 5
F
chmod +x faulty
run --kill-on-bad-exit=1 -N 2 -n 3 "$fleetrun" --server_num=1 --worker_num=2 \
    ./faulty
[ $code -ne 0 ] || fail "a worker fails, but the job does not"
expect said "task 2: Exited with exit code 3"
expect_none_left member faulty fleetrun

# a_wrong_number_of_tasks_is_told
run -N 1 -n 4 "$fleetrun" --server_num=1 --worker_num=2 "$member" 50 0
[ $code -ne 0 ] || fail "4 tasks for 3 processes are taken"
expect said 'Slurm has started 4 tasks'

# the_script_for_sbatch_runs_as_it_is
make_job "$ctr_dnn" "$flotilla" "$fleetrun"
timeout -k 5 200 sbatch --wait "$job_sbatch" >said 2>&1
code=$?
expect_good "sbatch, $(cat ctr-*.out)"
expect_learnt ctr-*/workerlog.0
[ "$(echo ctr-*/*log.* | wc -w)" -eq 8 ] || fail "logs: $(echo ctr-*/*)"
expect_none_left ctr_dnn fleetrun
exit $failed
