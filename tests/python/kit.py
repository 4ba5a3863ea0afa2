"""What the tests of the package share: nets, folders and scripts of their own."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

import flotilla as fl


class Case(unittest.TestCase):
    def enter(self, manager):
        """Inside of it until the test ends."""
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value


class NetCase(Case):
    """Layers write to programs of the test's own, and names count from 0."""

    def setUp(self):
        self.main, self.startup = fl.Program(), fl.Program()
        self.enter(fl.program_guard(self.main, self.startup))
        self.enter(fl.unique_name.guard())

    def run_for(self, *fetches, **feed):
        """What a run of fresh values gives."""
        exe, scope = fl.Executor(), fl.Scope()
        exe.run(self.startup, scope=scope)
        return exe.run(self.main, feed=feed, fetch_list=list(fetches),
                       scope=scope)


class FolderCase(Case):
    """A folder of the test's own."""

    def setUp(self):
        self.folder = self.enter(tempfile.TemporaryDirectory())

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, *parts):
        os.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
        with open(self.at(name), "w", encoding="utf-8") as f:
            f.write("".join(parts))

    def command(self, *words, code=0, **variables):
        """What a program that ran there said, on both of its streams. A
        variable that is None is not set."""
        env = {**os.environ, "FLOTILLA_PYTHON": sys.executable, **variables}
        env = {name: v for name, v in env.items() if v is not None}
        done = subprocess.run(words, cwd=self.folder, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, code,
                         done.stdout + self.logs("*log.*"))
        return done.stdout

    def logs(self, which):
        """What members of a job wrote, those of all together."""
        found = []
        for path in sorted(glob.glob(self.at("log*", which))):
            with open(path, encoding="utf-8") as f:
                found.append(f.read())
        return "".join(found)

    def run_script(self, script, *words, code=0):
        """The same of a script; the words are what runs it."""
        self.write("script.py", script)
        return self.command(*words, self.at("script.py"), code=code)


def path_with(program):
    """PATH with the folder of a program first."""
    return os.path.dirname(program) + os.pathsep + os.environ["PATH"]
