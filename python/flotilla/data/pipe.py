"""The command that each file of a dataset goes through.

A file of another system is not on this machine: a small file that holds its
path stands in for it, and the command begins by fetching what that path names.
A command in front of another one that fails ends the shell, or what is behind
it would take the rest of its output for the whole.
"""
import hashlib
import os
import shlex
import tempfile

_SCHEMES = ("hdfs:", "afs:")


def is_remote(path):
    """Whether a path is one of another system."""
    return path.startswith(_SCHEMES)


def _into(first, then):
    return f"{{ {first} || kill $$; }} | {then}"


def hadoop(fs_name, fs_ugi):
    """What reads a file of HDFS, as 1.8 does."""
    return ("hadoop fs -D fs.default.name=" + shlex.quote(fs_name) +
            " -D hadoop.job.ugi=" + shlex.quote(fs_ugi) + " -cat")


def _folder():
    """Of stand-ins, which belongs to the user."""
    folder = os.path.join(tempfile.gettempdir(), f"flotilla-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; set TMPDIR "
                              "to a folder of your own")
    return folder


def stand_in(path):
    """A file of this machine that holds the path: always the same one, so
    that a pass goes on where it was."""
    number = hashlib.sha1(path.encode()).hexdigest()[:16]
    here = os.path.join(_folder(), number + "-" + os.path.basename(path))
    if not os.path.exists(here):
        part = f"{here}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as f:
            f.write(path + "\n")
        os.replace(part, here)
    return here


def command(pipe, files, fetch, n_cut):
    """Of a dataset: fetched, unpacked, through its own command, and without
    the first fields of each line."""
    if any(f.endswith(".gz") for f in files) and pipe != "cat":
        pipe = _into("gzip -cdf", pipe)
    if any(map(is_remote, files)):
        paths = "|".join(s + "*" for s in _SCHEMES)
        pipe = _into(f"IFS= read -r p; case $p in {paths}) {fetch} \"$p\";; "
                     "*) cat -- \"$p\";; esac", pipe)
    return _into(pipe, f"cut -d' ' -f{n_cut + 1}-") if n_cut else pipe
