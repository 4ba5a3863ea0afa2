#!/bin/sh
# mpirun.sh [HOST...] - a job of 1 server and 3 workers under mpirun, of Open
# MPI or MPICH. Without hosts everything runs on this machine. With hosts, one
# process runs on each, in this order: MPI does not tell a process where the
# others are, so the server, which is the first, is given by --servers.
#
#     ./mpirun.sh
#     ./mpirun.sh node1 node2 node3 node4
#
# The file ctr.token, in a folder that all hosts see, keeps everybody else out.
[ -e ctr.token ] || (umask 077 && openssl rand -hex 32 >ctr.token) || exit 1
if [ $# -eq 0 ]; then
    exec mpirun -n 4 fleetrun --token_file=ctr.token --server_num=1 \
        --worker_num=3 ./ctr_dnn train/ test/ 1
fi
first=$1
hosts=$(echo "$*" | tr ' ' ,)
exec mpirun -n $# --host "$hosts" \
    fleetrun --token_file=ctr.token --servers="$first:6170" \
    --worker_num=$(($# - 1)) ./ctr_dnn train/ test/ 1
