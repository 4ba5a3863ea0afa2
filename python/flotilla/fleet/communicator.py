"""fluid.communicator: looks after what trainers and servers exchange. The
library does, from the first run of a trainer's program on; a Communicator is
where 1.8's scripts say when."""
from .. import ir


class Communicator:
    def __init__(self, program, mode=None, kwargs=None, envs=None):
        if not isinstance(program, ir.Program):
            raise AssertionError("a Communicator takes the trainer's program, "
                                 f"not {type(program)}")
        self._running = False

    def start(self):
        self._running = True

    def stop(self):
        """What was sent is applied when the trainer leaves its job: by
        fleet.stop_worker, or at its end."""
        self._running = False

    def is_running(self):
        return self._running
