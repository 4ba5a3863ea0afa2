"""Starting scripts: with PaddlePaddle's names on their path, alone or as a
job under fleetrun."""
import os
import shutil
import sys

from . import __path__ as _folders
from .compat import FOLDER


def environment():
    """The environment of a script: PaddlePaddle's names first on its path, and
    this package wherever it was found."""
    path = [FOLDER] + [os.path.dirname(os.path.abspath(p)) for p in _folders]
    path += os.environ.get("PYTHONPATH", "").split(os.pathsep)
    known = list(dict.fromkeys(p for p in path if p))
    return dict(os.environ, PYTHONPATH=os.pathsep.join(known),
                FLOTILLA_PYTHON=sys.executable)


def run_script(words):
    """Becomes the interpreter with these words."""
    os.execve(sys.executable, [sys.executable] + words, environment())


def fleetrun():
    """The launcher: of PATH, beside the interpreter, or in a build directory
    where the extension is."""
    beside = [os.path.join(os.path.dirname(sys.executable), "fleetrun")]
    beside += [os.path.join(os.path.dirname(os.path.dirname(p)), "cmd",
                            "fleetrun") for p in _folders]
    for path in [shutil.which("fleetrun")] + beside:
        if path and os.access(path, os.X_OK):
            return path
    sys.exit("the launcher fleetrun is neither in a folder of PATH nor beside "
             f"{sys.executable}; add its folder to PATH")


def _become_fleetrun(name, words):
    os.execve(fleetrun(), [name] + words, environment())


def launch_ps(words=None):
    """python -m paddle.distributed.launch_ps: fleetrun, with the numbers that
    this launcher has when none are given."""
    _become_fleetrun("launch_ps", sys.argv[1:] if words is None else words)


def launch(words=None):
    """python -m paddle.distributed.launch: workers alone, as many as GPUs were
    selected, or whatever fleetrun's own options say."""
    words = list(sys.argv[1:] if words is None else words)
    _become_fleetrun("launch", _renamed(words))


def _count(selected):
    return str(len([g for g in selected.split(",") if g.strip()]))


def _same(value):
    return value


# Fluid's option, fleetrun's, and what becomes of its value.
_OPTIONS = {"--cluster_node_ips": ("--ips", _same),
            "--started_port": ("--start_port", _same),
            "--selected_gpus": ("--nproc_per_node", _count)}


def _renamed(words):
    """The words with fleetrun's names for the options in front of the
    script."""
    done = []
    while words and words[0].startswith("-"):
        name, sign, value = words.pop(0).partition("=")
        if name not in _OPTIONS:
            done.append(name + sign + value)
            if not sign and words and not words[0].startswith("-") and \
                    name not in ("--status", "--help", "-h"):
                done.append(words.pop(0))
            continue
        if not sign:
            value = words.pop(0) if words else ""
        new, change = _OPTIONS[name]
        done.append(f"{new}={change(value)}")
    return done + words
