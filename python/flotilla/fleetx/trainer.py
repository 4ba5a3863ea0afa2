"""A loop over the batches of a loader."""
import time

from .. import ir
from ..executor import Executor
from ..fleet import fleet
from ..fluid import CUDAPlace
from ..tensor import CPUPlace


class Trainer:
    """Runs the default programs, which a fleet has made those of the job."""

    def __init__(self, place=None):
        self.place = place or CPUPlace()
        self.exe = Executor(self.place)

    def fit(self, model, dataloader, epoch=1, start_step=10):
        """Every step's loss is told; speed is that since start_step."""
        fleet.init_worker()
        self.exe.run(ir.default_startup_program())
        for number in range(epoch):
            self._pass(model, dataloader, number, start_step)
        fleet.stop_worker()

    def _pass(self, model, dataloader, number, start_step):
        began = time.monotonic()
        for step, feed in enumerate(dataloader()):
            loss, = self.exe.run(ir.default_main_program(), feed=feed,
                                 fetch_list=[model.loss.name])
            if step == start_step:
                began = time.monotonic()
            took = time.monotonic() - began
            speed = (step - start_step) / took if step > start_step else 0.0
            print(f"worker_index: {fleet.worker_index()}, epoch{number}, "
                  f"step{step}, train_loss: {float(loss[0]):f}, step per "
                  f"second: {speed:f}", flush=True)


class CPUTrainer(Trainer):
    def __init__(self):
        super().__init__(CPUPlace())


class MultiGPUTrainer(Trainer):
    def __init__(self):
        super().__init__(CUDAPlace(0))
