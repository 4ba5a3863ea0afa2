"""Ctrl-C ends waiting for the members of a job.

    test_interrupt_job.py FLEETRUN

Every member is a process of its own. A member that waits interrupts itself when
its log says that it does; the others wait for the file that it writes then.
Nothing else would end it before the harness gives the test up.
"""
import os
import sys
import unittest

from kit import FolderCase

FLEETRUN = os.path.abspath(sys.argv.pop(1))

MEMBER = """
import os, signal, sys, threading, time
import numpy as np
import flotilla as fl

signal.signal(signal.SIGINT, signal.default_int_handler)

def wait(holds):
    while not holds():
        time.sleep(0.02)

def exists(path):
    return lambda: os.path.exists(path)

def logged(text):
    def holds():
        with open("log/workerlog.0") as f:
            return text in f.read()
    return holds

def state(task):
    with open(f"/proc/{task}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]

def is_waiting():
    '''Whether the main thread sleeps, for longer than another has the lock of
    the interpreter.'''
    for _ in range(20):
        if state(f"self/task/{os.getpid()}") != "S":
            return False
        time.sleep(0.02)
    return True

def touch(path):
    open(path, "w").close()

def interrupted(work, holds):
    '''Does the work, and is interrupted in it as soon as this holds.'''
    def ring():
        wait(holds)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=ring).start()
    try:
        work()
        print("it was over", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)

servers = os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST")
serves = os.environ["TRAINING_ROLE"] == "PSERVER"
rank = int(os.environ["PADDLE_PSERVER_ID" if serves else "PADDLE_TRAINER_ID"])
if serves:
    with open("server", "w") as f:
        f.write(str(os.getpid()))
    os.rename("server", "server.pid")
    interrupted(lambda: fl.serve(servers, 2, rank), exists("done"))
    sys.exit()
"""

# Nobody but worker 0 joins.
START = MEMBER + """
if rank == 0:
    job = fl.Job(servers, 2, 0)
    job.table("users", dim=4)
    interrupted(job.start, logged("waiting for trainer 1"))
    touch("done")
wait(exists("done"))
os._exit(0)
"""

BARRIER = MEMBER + """
job = fl.Job(servers, 2, rank)
job.table("users", dim=4)
job.start()
if rank == 0:
    interrupted(job.barrier, logged("missing is trainer 1"))
    touch("done")
wait(exists("done"))
os._exit(0)
"""

# The server is stopped, so that no answer comes.
PULL = MEMBER + """
job = fl.Job(servers, 2, rank)
users = job.table("users", dim=4)
job.start()
if rank == 1:
    touch("started")
if rank == 0:
    wait(exists("started"))
    with open("server.pid") as f:
        server = int(f.read())
    os.kill(server, signal.SIGSTOP)
    wait(lambda: state(server) == "T")
    interrupted(lambda: users.pull([1, 2, 3]), logged("is silent since"))
    os.kill(server, signal.SIGCONT)
    touch("done")
wait(exists("done"))
os._exit(0)
"""

# Workers alone: worker 1 is in no meeting with worker 0.
WORKERS = MEMBER + """
from flotilla.fleet import collective
fleet = collective.fleet
fleet.init()
x = fl.layers.data("x", [2])
loss = fl.layers.mean(fl.layers.fc(x, 1))
fleet.distributed_optimizer(fl.optimizer.SGD(0.1)).minimize(loss)
fl.Executor().run(fl.default_startup_program())
if rank == 0:
    interrupted(fleet.barrier_worker, is_waiting)
    touch("done")
wait(exists("done"))
os._exit(0)
"""


class Interrupts(FolderCase):
    def check(self, script, *options):
        said = self.run_script(
            script, "env", "FLOTILLA_CONNECT_TIMEOUT_MS=3600000",
            "FLOTILLA_RESTART_TIMEOUT_MS=3600000", FLEETRUN, *options)
        said += self.logs("*log.*")
        self.assertIn("interrupted", self.logs("workerlog.0"), said)
        self.assertNotIn("it was over", said)

    def on_servers(self, script):
        self.check(script, "--server_num=1", "--worker_num=2")
        self.assertIn("interrupted", self.logs("serverlog.0"))

    def test_waiting_for_members_ends_and_so_does_a_server(self):
        self.on_servers(START)

    def test_a_barrier_ends(self):
        self.on_servers(BARRIER)

    def test_a_pull_without_an_answer_ends(self):
        self.on_servers(PULL)

    def test_a_meeting_of_workers_ends(self):
        self.check(WORKERS, "--worker_num=2")


if __name__ == "__main__":
    unittest.main()
