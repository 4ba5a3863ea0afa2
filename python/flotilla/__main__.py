"""python -m flotilla SCRIPT ...: runs a script with PaddlePaddle's names."""
import runpy
import sys

from . import compat


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python -m flotilla SCRIPT [ARGUMENTS]")
    compat.install()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
