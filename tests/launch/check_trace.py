"""check_trace.py FILE PROCESS... - a trace that Perfetto loads: every event has
what the Chrome format asks for, slices of a thread nest, processes and threads
have names, and these processes are in it, in this order. Prints what waits there
are and how many processes were at work at the same time."""
import json
import sys

NEEDS = {"X": ("ts", "pid", "tid", "dur", "cat", "name"),
         "M": ("pid", "name", "args")}


def fail(text):
    print("FAIL %s: %s" % (sys.argv[1], text))
    sys.exit(1)


def check_event(e):
    for key in NEEDS.get(e.get("ph"), ("ph X or M",)):
        if key not in e:
            fail("%s is missing in %r" % (key, e))
    if e["ph"] == "X" and (e["ts"] < 0 or e["dur"] < 0):
        fail("a time below zero in %r" % e)


def check_nesting(slices):
    """Of one thread: one that begins inside another ends inside it."""
    open_until = []
    for e in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
        while open_until and open_until[-1] <= e["ts"] + 1e-6:
            open_until.pop()
        end = e["ts"] + e["dur"]
        if open_until and end > open_until[-1] + 1e-2:
            fail("%r ends behind the one around it" % e)
        open_until.append(end)


def named(events, kind, key):
    return {key(e): e["args"]["name"] for e in events if e["name"] == kind}


with open(sys.argv[1]) as f:
    all_events = json.load(f)["traceEvents"]
for event in all_events:
    check_event(event)
meta = [e for e in all_events if e["ph"] == "M"]
work = [e for e in all_events if e["ph"] == "X"]
processes = named(meta, "process_name", lambda e: e["pid"])
threads = named(meta, "thread_name", lambda e: (e["pid"], e["tid"]))
order = {e["pid"]: e["args"]["sort_index"] for e in meta
         if e["name"] == "process_sort_index"}
got = [processes[pid] for pid in sorted(processes, key=lambda p: order[p])]
if got != sys.argv[2:]:
    fail("the processes are %s" % got)
for thread in {(e["pid"], e["tid"]) for e in work}:
    if not threads.get(thread):
        fail("thread %s of process %s has no name" % thread)
    check_nesting([e for e in work if (e["pid"], e["tid"]) == thread])

# On one clock: what a worker asked for was served while it waited or worked.
spans = {pid: (min(e["ts"] for e in work if e["pid"] == pid),
               max(e["ts"] + e["dur"] for e in work if e["pid"] == pid))
         for pid in processes}
if max(lo for lo, hi in spans.values()) >= min(hi for lo, hi in spans.values()):
    fail("processes that ran together are apart: %s" % spans)
for name in sorted({e["name"] for e in work if e["cat"] == "wait"}):
    print(name)
