"""python -m paddle.distributed.launch_ps [OPTIONS] SCRIPT [ARGUMENTS]"""
from flotilla.launch import launch_ps

if __name__ == "__main__":
    launch_ps()
