"""Starting scripts: python -m flotilla, fleetrun, paddle.distributed.launch.

    test_launch.py FLEETRUN
"""
import os
import sys
import unittest

import numpy as np

from kit import FolderCase, path_with

FLEETRUN = os.path.abspath(sys.argv.pop(1))
# PaddlePaddle's names are on no path by themselves.
PATH = [p for p in os.environ["PYTHONPATH"].split(os.pathsep)
        if os.path.basename(p) != "compat"]
SAYS = """
import os, sys
import paddle
import neighbour
print(paddle.__version__, neighbour.NAME, sys.argv[1:],
      os.environ.get("TRAINING_ROLE"), os.environ.get("PADDLE_TRAINERS_NUM"))
"""


class Scripts(FolderCase):
    def setUp(self):
        super().setUp()
        self.write("neighbour.py", "NAME = 'beside'\n")
        self.write("script.py", SAYS)

    def expect(self, said, *words, path=(), code=0, **variables):
        env = {"PYTHONPATH": os.pathsep.join([*path, *PATH]),
               "PATH": path_with(FLEETRUN), **variables}
        self.assertIn(said, self.command(*words, code=code, **env))

    def test_a_script_finds_the_names_and_what_lies_beside_it(self):
        self.expect("1.8.5+flotilla beside ['a', 'b'] None",
                    sys.executable, "-m", "flotilla", "script.py", "a", "b")

    def test_fleetrun_starts_the_interpreter_itself(self):
        self.expect("1.8.5+flotilla beside ['a'] TRAINER 1", FLEETRUN,
                    "script.py", "a")
        self.expect("1.8.5+flotilla beside [] TRAINER 2", FLEETRUN,
                    "--worker_num=2", "script.py")

    def test_launch_starts_as_many_workers_as_devices_are_selected(self):
        launch = (sys.executable, "-m", "flotilla", "-m",
                  "paddle.distributed.launch")
        self.expect("TRAINER 1", *launch, "script.py")
        self.expect("TRAINER 2", *launch, "--selected_gpus=0,1", "script.py")
        self.expect("['--selected_gpus'] TRAINER 2", *launch,
                    "--selected_gpus", "0,1", "script.py", "--selected_gpus")

    def test_launch_ps_starts_two_of_each(self):
        launch = (sys.executable, "-m", "flotilla", "-m",
                  "paddle.distributed.launch_ps")
        self.expect("2 servers and 2 workers", *launch, "script.py")
        self.expect("1 server and 3 workers", *launch, "--server_num", "1",
                    "--worker_num=3", "script.py")

    def test_another_paddle_is_not_shadowed(self):
        self.write("site/paddle/__init__.py", "__version__ = 'another'\n")
        site = [self.at("site")]
        self.expect("another beside", sys.executable, "script.py", path=site)
        self.expect("1.8.5+flotilla", sys.executable, "-m", "flotilla",
                    "script.py", path=site)

    def test_another_paddle_that_is_imported_stays(self):
        self.write("site/paddle/__init__.py", "__version__ = 'another'\n")
        self.expect("another paddle is imported already", sys.executable,
                    "-c", "import paddle\n"
                    "import flotilla.compat\n"
                    "flotilla.compat.install()\n",
                    path=[self.at("site")], code=1)

    def test_an_interpreter_without_flotilla_runs_its_script(self):
        self.write("plain.py", "print('plain', 1 + 1)\n")
        said = self.command(FLEETRUN, "plain.py", PYTHONPATH="")
        self.assertIn("plain 2", said)
        self.assertIn(f"{sys.executable} has no flotilla", said)

    def python(self, folder, path=""):
        """A python3 of its own, with this PYTHONPATH and no other packages."""
        self.write(f"{folder}/python3", f"#!/bin/sh\nPYTHONPATH={path} exec "
                   f"{sys.executable} -S \"$@\"\n")
        os.chmod(self.at(folder, "python3"), 0o755)
        return self.at(folder)

    def choose(self, *folders, code=0):
        """What fleetrun says with these folders and the usual ones on PATH."""
        self.write("who.py", "import sys; print('run by', sys.flags.no_site)\n")
        return self.command(FLEETRUN, "who.py", code=code, FLOTILLA_PYTHON=None,
                            PYTHONPATH="", PATH=os.pathsep.join(folders))

    def test_the_first_python_with_flotilla_and_numpy_is_taken(self):
        numpy = os.path.dirname(os.path.dirname(np.__file__))
        bare, whole = self.python("bare"), self.python(
            "whole", os.pathsep.join([*PATH, numpy]))
        said = self.choose(bare, whole)
        self.assertIn("run by 1", said)
        self.assertNotIn("flotilla", said)

    def test_pythons_that_lack_something_are_named(self):
        bare, half = self.python("bare"), self.python(
            "half", os.pathsep.join(PATH))
        self.assertIn(f"{half}/python3 has flotilla and no numpy; try: "
                      f"{half}/python3 -m pip install numpy",
                      self.choose(bare, half, code=1))
        other = self.python("other")
        self.assertIn(f"{bare}/python3, {other}/python3 has no flotilla",
                      self.choose(bare, other))

    def test_an_interpreter_that_is_not_there_is_named(self):
        self.expect("FLOTILLA_PYTHON=/no/python: No such file", FLEETRUN,
                    "script.py", FLOTILLA_PYTHON="/no/python", code=1)


if __name__ == "__main__":
    unittest.main()
