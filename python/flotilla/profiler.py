"""Which operators take the time: fluid.profiler.

    with profiler.profiler("CPU", "total", "/tmp/profile"):
        exe.run(...)

prints a table of what the executors ran meanwhile, and writes when each operator
ran as a Chrome trace (chrome://tracing, Perfetto).
"""
import contextlib
import json
import os
import tempfile

from . import _core, ir

_SORTED = {"calls": 1, "total": 2, "max": 4, "min": 3, "ave": 5}


def _set(is_on):
    _core.ctx_set(ir.ctx, "profile", "true" if is_on else "false")


def start_profiler(state, tracer_option="Default"):
    """Profiles runs from now on."""
    if state not in ("CPU", "GPU", "All"):
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in ("Default", "OpDetail", "AllOpDetail"):
        raise ValueError("tracer option must be 'Default', 'OpDetail', "
                         "'AllOpDetail'.")
    _set(True)


def stop_profiler(sorted_key=None, profile_path="/tmp/profile"):
    """Prints which operators took the time, and writes when they ran."""
    if sorted_key is not None and sorted_key not in _SORTED:
        raise ValueError("The sorted_key must be None or in 'calls', 'total', "
                         "'max', 'min' and 'ave'")
    _set(False)
    events = _events()
    print(_table(events, sorted_key))
    with open(profile_path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)
    reset_profiler()


def reset_profiler():
    """Forgets what was noted so far."""
    for executor in _open():
        _core.executor_reset_profile(executor._handle)


@contextlib.contextmanager
def profiler(state, sorted_key=None, profile_path="/tmp/profile",
             tracer_option="Default"):
    """Profiles what runs inside."""
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def cuda_profiler(output_file, output_mode=None, config=None):
    """Refuses: there is no GPU here."""
    raise NotImplementedError("cuda_profiler: there is no GPU here; "
                              "profiler('CPU') shows where the time goes")


def _open():
    return [e for e in ir.executors if e._handle is not None]


def _events():
    """What all executors have noted."""
    found = []
    for executor in _open():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            _core.executor_trace(executor._handle, path)
            with open(path, encoding="utf-8") as f:
                found += json.load(f)["traceEvents"]
    return found


def _table(events, sorted_key):
    """Per operator: calls, milliseconds in all, least, most, on average."""
    by_name = {}
    for event in events:
        by_name.setdefault(event["name"], []).append(event["dur"] / 1000)
    rows = [(name, len(ms), sum(ms), min(ms), max(ms), sum(ms) / len(ms))
            for name, ms in by_name.items()]
    if sorted_key is not None:
        rows.sort(key=lambda row: -row[_SORTED[sorted_key]])
    whole = sum(row[2] for row in rows) or 1
    lines = [f"{'Event':32}{'Calls':>8}{'Total':>12}{'Min.':>10}{'Max.':>10}"
             f"{'Ave.':>10}{'Ratio':>8}"]
    lines += [f"{row[0]:32}{row[1]:8}{row[2]:12.4f}{row[3]:10.4f}{row[4]:10.4f}"
              f"{row[5]:10.4f}{row[2] / whole:8.3f}" for row in rows]
    return "\n".join(lines)
