#!/bin/sh
# test_archive.sh ARCHIVE - the library that only predicts has nothing of servers,
# networks, modes, fleets and data in it; says how large it is.
archive=$1
failed=0

size=$(wc -c <"$archive") || exit 1
text=$(size -t "$archive" 2>/dev/null | awk 'END { print $1 }')
echo "$(basename "$archive"): $size bytes, code and constants ${text:-?} bytes"

defined=$(nm --defined-only "$archive" 2>/dev/null | awk '$2 == "T" { print $3 }')
has()
{
    printf '%s\n' "$defined" | grep -qx "$1"
}
for name in fl_rpc_server_new fl_rpc_client_new fl_server_new fl_client_new \
    fl_mode_local_new fl_fleet_init fl_dataset_new fl_reader_new_with \
    fl_job_connect_with fl_loop_new fl_serving_start_with fl_ctx_new; do
    has "$name" && { echo "FAIL $name is in it"; failed=1; }
done
for name in fl_model_open_with fl_predictor_run; do
    has "$name" || { echo "FAIL $name is missing"; failed=1; }
done
exit $failed
