"""Ctrl-C ends what the library does, and everything stays usable.

Each script says when it is inside; only then it is interrupted.
"""
import signal
import subprocess
import sys
import tempfile
import unittest

NET = """
import os, signal, sys, threading, time
import numpy as np
import flotilla as fl
x = fl.layers.data("x", [1])
y = fl.layers.data("y", [1])
loss = fl.layers.mean(fl.layers.square_error_cost(fl.layers.fc(x, 1), y))
fl.optimizer.SGD(0.01).minimize(loss)
exe = fl.Executor()
exe.run(fl.default_startup_program())
with open("lines", "w") as f:
    f.write("1 0.5 1 0.25\\n" * 1000)

def dataset(kind="QueueDataset", command="cat"):
    d = fl.DatasetFactory().create_dataset(kind)
    d.set_use_var([x, y])
    d.set_batch_size(10)
    d.set_filelist(["lines"])
    d.set_pipe_command(command)
    return d

signal.signal(signal.SIGINT, signal.default_int_handler)

class Inside(fl.FetchHandler):
    def handler(self, values):
        print("inside", flush=True)
        self.handler = lambda values: None

def handler():
    return Inside({"loss": loss}, period_secs=0.05)

def ended(work):
    try:
        work()
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")
    report = exe.train_from_dataset(dataset=dataset())
    print("then", report["samples"], "samples")
"""

# The data never ends: all 1000 lines come, and then nothing.
ENDLESS = '"cat; touch waiting; sleep 600"'

TELL = """
def tell():
    while not os.path.exists("waiting"):
        time.sleep(0.01)
    print("inside", flush=True)

threading.Thread(target=tell).start()
"""

WAITING = NET + TELL + f"""
ended(lambda: exe.train_from_dataset(dataset=dataset(command={ENDLESS})))
"""

LOADING = NET + TELL + f"""
ended(dataset("InMemoryDataset", {ENDLESS}).load_into_memory)
"""

# Batches come for ever.
TRAINING = NET + """
ended(lambda: exe.train_from_dataset(
    dataset=dataset(command="cat; yes '1 0.5 1 0.25'"),
    fetch_handler=handler()))
"""

RUNNING = NET + """
feed = {"x": np.ones((2, 1), "float32"), "y": np.ones((2, 1), "float32")}

def loop():
    print("inside", flush=True)
    while True:
        exe.run(feed=feed, fetch_list=[loss])

ended(loop)
"""

# One run that never ends; its third lap says that it is under way.
LOOPING = NET + """
endless = fl.Program()
with fl.program_guard(endless, fl.Program()):
    i = fl.layers.fill_constant([1], "int64", 0)
    n = fl.layers.fill_constant([1], "int64", -1)
    goes_on = fl.layers.less_than(n, i)
    out = endless.global_block().create_var(name="lap", shape=[1],
                                            dtype="int64")

    def tell(lap):
        lap = np.array(lap)
        if lap[0] == 3:
            print("inside", flush=True)
        return lap

    loop = fl.layers.While(goes_on)
    with loop.block():
        fl.layers.increment(i, 1, in_place=True)
        fl.layers.py_func(tell, i, out)
        fl.layers.less_than(n, i, cond=goes_on)
ended(lambda: exe.run(endless))
"""

# Handlers that are set between runs: one of the script's own, and none.
OWN = NET + TELL + f"""
def own(number, frame):
    print("own", flush=True)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, own)
ended(lambda: exe.train_from_dataset(dataset=dataset(command={ENDLESS})))
print("is own" if signal.getsignal(signal.SIGINT) is own else "is lost")
signal.signal(signal.SIGINT, signal.SIG_IGN)
exe.train_from_dataset(dataset=dataset())
os.kill(os.getpid(), signal.SIGINT)
print("ignored")
"""

RAISING = NET + """
class Bad(fl.FetchHandler):
    def handler(self, values):
        raise KeyError("of the handler")

try:
    exe.train_from_dataset(dataset=dataset(command="cat; yes '1 0.5 1 0.25'"),
                           fetch_handler=Bad({"loss": loss}, 0.05))
except KeyError as e:
    print("raised", e)
print("then", exe.train_from_dataset(dataset=dataset())["samples"])
"""

class Interrupts(unittest.TestCase):
    def interrupt(self, script):
        with tempfile.TemporaryDirectory() as folder:
            said = []
            with subprocess.Popen(
                    [sys.executable, "-c", script], text=True, cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT) as child:
                for line in child.stdout:
                    said.append(line)
                    if line == "inside\n":
                        child.send_signal(signal.SIGINT)
            self.assertEqual(child.returncode, 0, "".join(said))
        return "".join(said)

    def check(self, script):
        out = self.interrupt(script)
        self.assertIn("interrupted\nthen 1000 samples", out)

    def test_a_pass_that_waits_for_data_ends(self):
        self.check(WAITING)

    def test_a_pass_that_trains_ends(self):
        self.check(TRAINING)

    def test_loading_ends(self):
        self.check(LOADING)

    def test_a_loop_of_runs_ends(self):
        self.check(RUNNING)

    def test_a_run_that_loops_ends(self):
        self.check(LOOPING)

    def test_a_handler_that_is_set_between_runs_counts(self):
        out = self.interrupt(OWN)
        self.assertIn("own\ninterrupted\nthen 1000 samples\nis own\nignored",
                      out)

    def test_an_exception_of_a_handler_ends_the_pass_and_is_raised(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", RAISING], text=True,
                                  cwd=folder, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("raised 'of the handler'\nthen 1000", done.stdout)


if __name__ == "__main__":
    unittest.main()
