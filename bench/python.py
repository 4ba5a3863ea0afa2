"""Measures Python against C: the same networks on the same data, in turns.

    python.py BUILD

BENCH_PADDLE names a Python with PaddlePaddle 1.8.5, whose step of the toy net
is measured as well. Figures are printed, and added to the file that BENCH_TSV
names.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NET = os.path.join(HERE, "python_net.py")
TOY_STEPS = 2000
REPEATS = int(os.environ.get("BENCH_REPEATS", 9))
TOY_REPEATS = 20 * REPEATS  # short turns: a step takes microseconds
JOB_REPEATS = int(os.environ.get("BENCH_REPEATS", 3))
MODES = ("sync", "half_async", "async", "geo")


def row(name, values, unit):
    """One figure: the median of its repeats, and the extremes."""
    text = (f"{name}\t{statistics.median(values):.4g}\t{unit}\t"
            f"{min(values):.4g}\t{max(values):.4g}")
    print(text, flush=True)
    if "BENCH_TSV" in os.environ:
        with open(os.environ["BENCH_TSV"], "a", encoding="utf-8") as f:
            f.write(text + "\n")


class Side:
    """A process that takes orders."""

    def __init__(self, command, env=None):
        self._process = subprocess.Popen(
            command, env=env, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self._said("ready")

    def _said(self, wanted=None):
        for line in self._process.stdout:
            if wanted is None or line.strip() == wanted:
                return line
        raise SystemExit(f"bench: {self._process.args[0]} has ended")

    def do(self, order):
        """Seconds by the clock, and of CPU time."""
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return [float(word) for word in self._said().split()]

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def in_turns(ours, c, order, repeats=REPEATS):
    """(ours, C's) of each repeat, after one that warms up; who begins changes
    from pair to pair."""
    pairs = []
    for i in range(repeats + 1):
        first, second = (ours, c) if i % 2 else (c, ours)
        a, b = first.do(order), second.do(order)
        pairs.append((a, b) if i % 2 else (b, a))
    return pairs[1:]


def toy(ours, c):
    pairs = in_turns(ours, c, "toy", TOY_REPEATS)
    us = [1e6 * p[0] / TOY_STEPS for p, _ in pairs]
    c_us = [1e6 * q[0] / TOY_STEPS for _, q in pairs]
    row("python.toy.step_us", us, "us")
    row("python.toy.c_us", c_us, "us")
    row("python.toy.over_c_us", [a - b for a, b in zip(us, c_us)], "us")


def of_c(ours, c, what):
    """C's time as a share of ours, by the clock and by CPU time."""
    pairs = in_turns(ours, c, what)
    row(f"python.ctr.{what}.of_c", [q[0] / p[0] for p, q in pairs], "ratio")
    row(f"python.ctr.{what}.cpu_of_c", [q[1] / p[1] for p, q in pairs], "ratio")


def job_seconds(build, command):
    logs = tempfile.mkdtemp(dir=build)
    done = subprocess.run(
        [os.path.join(build, "cmd", "fleetrun"), "--server_num=1",
         "--worker_num=2", f"--log_dir={logs}", *command], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with open(os.path.join(logs, "workerlog.0"), encoding="utf-8") as f:
        said = f.read()
    if done.returncode or "seconds " not in said:
        raise SystemExit(f"bench: {' '.join(command)}:\n{done.stdout}{said}")
    shutil.rmtree(logs)
    return float(said.rsplit("seconds ", 1)[1].split()[0])


def jobs(build, data, c_path):
    for mode in MODES:
        shares = []
        for _ in range(JOB_REPEATS):
            ours = job_seconds(build, [sys.executable, NET, data, mode])
            shares.append(job_seconds(build, [c_path, data, mode]) / ours)
        row(f"python.ctr.dataset.{mode}.of_c", shares, "ratio")


def other(path):
    """1.8.5's step, as it is and with its program cache."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    side = Side([path, NET, "-", "toy"], env)
    steps = TOY_STEPS // 10
    us = [1e6 * side.do("toy_cached")[0] / steps for _ in range(REPEATS)]
    row("python.toy.paddle_us", us, "us")
    side.end()


def main(build):
    build = os.path.abspath(build)
    c_path = os.path.join(build, "bench", "bench_python_c")
    work = tempfile.mkdtemp(dir=build)
    data = os.path.join(work, "data")
    try:
        c = Side([c_path, data])
        ours = Side([sys.executable, NET, data])
        toy(ours, c)
        for what in ("dataset", "loader", "feed"):
            of_c(ours, c, what)
        ours.end()
        c.end()
        jobs(build, data, c_path)
        if "BENCH_PADDLE" in os.environ:
            other(os.environ["BENCH_PADDLE"])
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main(sys.argv[1])
