"""python -m flotilla SCRIPT ...: runs a script with PaddlePaddle's names."""
import sys

from .launch import run_script


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python -m flotilla SCRIPT [ARGUMENTS]\n"
                 "       python -m flotilla -m MODULE [ARGUMENTS]")
    run_script(sys.argv[1:])


if __name__ == "__main__":
    main()
