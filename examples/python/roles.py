"""Who a process is: by the environment that fleetrun sets, or by hand.

    python3 -m paddle.distributed.launch_ps --server_num=2 --worker_num=2 roles.py
    python3 -m paddle.distributed.launch roles.py collective
    python3 -m flotilla roles.py by_hand
"""
import sys

import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker

how = sys.argv[1] if len(sys.argv) > 1 else "servers"
if how == "by_hand":
    role = role_maker.UserDefinedRoleMaker(
        current_id=0, role=role_maker.Role.SERVER, worker_num=2,
        server_endpoints=["127.0.0.1:36011", "127.0.0.1:36012"])
else:
    role = role_maker.PaddleCloudRoleMaker(is_collective=how == "collective")

fleet.init(role)
if fleet.is_server():
    print(f"server {fleet.server_index()} of {fleet.server_num()}")
else:
    print(f"worker {fleet.worker_index()} of {fleet.worker_num()}")
