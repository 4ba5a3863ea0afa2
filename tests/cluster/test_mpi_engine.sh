#!/bin/sh
# test_mpi_engine.sh MEMBER [PLUGIN] - collective calls by MPI, in tasks of a real
# mpirun on this host.
. "$(dirname "$0")/kit.sh"
member=$1
plugin=${2:-}
needs mpirun
[ -n "$plugin" ] || skip "libopenmpi-dev is not installed (tools/setup cluster)"
ip link set lo up
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
LD_LIBRARY_PATH=$(dirname "$plugin")
export LD_LIBRARY_PATH

# run COMMAND...: its exit code in $code, all that it says in said.
run()
{
    timeout -k 5 100 "$@" >said 2>&1
    code=$?
}

# every_kind_of_call_gives_what_it_says
for n in 2 3 4; do
    run mpirun -n $n "$member"
    [ $code -eq 0 ] || fail "$n tasks: exit code $code: $(cat said)"
    expect said "rank $((n - 1)) of $n: good"
done

# a_call_that_does_not_fit_names_both
run mpirun -n 3 "$member" odd
expect said 'allreduce of 2 f32 (sum) on worker 0 and allreduce of 1 f32'
expect said 'of 1 f32 (sum) on worker 2 and allreduce of 2 f32 (sum) on worker 0'

# another_number_of_workers_is_refused
run mpirun -n 2 "$member" alone
expect said 'worker 0 of 7 is rank 0 of 2 of MPI: start every worker by mpirun'

# without_the_plugin_the_error_names_it
LD_LIBRARY_PATH=
run "$member"
expect said 'need flotilla-mpi.so, which is built where libopenmpi-dev is'
expect_none_left mpi_member mpirun
exit $failed
