#!/bin/sh
# test_mpirun.sh MEMBER FLEETRUN CTR_DNN FLOTILLA MPIRUN_SH - tasks of Open MPI
# on this host, and on four, which are network namespaces.
. "$(dirname "$0")/kit.sh"
member=$1
fleetrun=$2
ctr_dnn=$3
flotilla=$4
mpirun_sh=$5
needs mpirun
make_network
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

# run COMMAND...: its exit code in $code, all that it says in said.
run()
{
    timeout -k 5 100 "$@" >said 2>&1
    code=$?
}

expect_good()
{
    [ $code -eq 0 ] || fail "$1: exit code $code: $(tail -n 20 said)"
    expect_none_left member ctr_dnn fleetrun mpirun orted
}

# a_job_of_three_tasks_on_one_host
run mpirun -n 3 "$fleetrun" --server_num=1 --worker_num=2 --log_dir=logs \
    "$member" 50 0
expect_good 'one host'
wanted=$(sed -n 's/^worker 0 done //p' logs/workerlog.0)
expect logs/workerlog.1 "worker 1 done ${wanted:-?}"

# workers_alone_come_to_the_same
run mpirun -n 2 "$fleetrun" --log_dir=alone "$member" 50 0
expect_good 'workers alone'
expect alone/workerlog.0 "worker 0 done ${wanted:-?}"
expect alone/workerlog.1 "worker 1 done ${wanted:-?}"

# two_jobs_at_the_same_time_do_not_meet
for i in 1 2; do
    timeout -k 5 100 mpirun -n 3 "$fleetrun" --server_num=1 --log_dir=logs.$i \
        "$member" 50 0 >said.$i 2>&1 &
    eval "job_$i=$!"
done
for i in 1 2; do
    eval "wait \$job_$i" || fail "one of two jobs: $(tail -n 20 said.$i)"
    expect logs.$i/workerlog.0 "worker 0 done $wanted"
done

# a_failing_worker_fails_the_job
cat >faulty <<F
#!/bin/sh
[ "\$TRAINING_ROLE \$PADDLE_TRAINER_ID" = "TRAINER 1" ] && exit 3
exec "$member" 100000 5
F
chmod +x faulty
run mpirun -n 3 "$fleetrun" --server_num=1 --worker_num=2 ./faulty
[ $code -eq 3 ] || fail "a failing worker gives exit code $code: $(cat said)"
expect_none_left member faulty fleetrun mpirun

# the_script_runs_as_it_is_on_one_host
make_job "$ctr_dnn" "$flotilla" "$fleetrun"
run sh "$mpirun_sh"
expect_good mpirun.sh
expect_learnt said

# and_on_four
for i in 1 2 3 4; do
    make_host node$i 10.77.0.$i
done
# What mpirun takes for ssh: HOST COMMAND...
cat >enter <<'F'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" sh -c "$*"
F
chmod +x enter
export OMPI_MCA_plm_rsh_agent="$dir/enter" OMPI_MCA_oob_tcp_if_include=hub,eth0
run sh "$mpirun_sh" node1 node2 node3 node4
expect_good 'four hosts'
expect_learnt said
exit $failed
