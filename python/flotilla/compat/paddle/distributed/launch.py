"""python -m paddle.distributed.launch [OPTIONS] SCRIPT [ARGUMENTS]"""
from flotilla.launch import launch

if __name__ == "__main__":
    launch()
