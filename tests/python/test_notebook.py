"""What a notebook shows, by a kernel of IPython."""
import importlib.util
import sys
import unittest

from kit import FolderCase

HAS_KERNEL = all(importlib.util.find_spec(name) is not None
                 for name in ("ipykernel", "jupyter_client"))

NET = """
import numpy as np
import flotilla as fl
x = fl.layers.data("x", [1])
y = fl.layers.data("y", [1])
loss = fl.layers.mean(fl.layers.square_error_cost(fl.layers.fc(x, 1), y))
fl.optimizer.SGD(0.01).minimize(loss)
exe = fl.Executor()
exe.run(fl.default_startup_program())
with open("lines", "w") as f:
    f.write("1 0.5 1 0.25\\n" * 100)
data = fl.DatasetFactory().create_dataset("QueueDataset")
data.set_use_var([x, y])
data.set_batch_size(10)
data.set_filelist(["lines"])
"""


@unittest.skipUnless(HAS_KERNEL, "ipykernel is not installed")
class Notebook(FolderCase):
    def setUp(self):
        super().setUp()
        from jupyter_client.manager import KernelManager
        manager = KernelManager()
        manager.kernel_spec.argv[0] = sys.executable
        manager.start_kernel(cwd=self.folder)
        self.addCleanup(manager.shutdown_kernel, now=True)
        self.client = manager.client()
        self.client.start_channels()
        self.addCleanup(self.client.stop_channels)
        self.client.wait_for_ready(timeout=120)

    def run_cell(self, code):
        """(type, content) of all that a cell shows."""
        shown = []

        def take(message):
            shown.append((message["msg_type"], message["content"]))

        reply = self.client.execute_interactive(code, timeout=120,
                                                output_hook=take)
        self.assertEqual(reply["content"]["status"], "ok", shown)
        return shown

    def test_a_program_is_drawn(self):
        shown = self.run_cell(NET + "fl.default_main_program()")
        data, = [c["data"] for kind, c in shown if kind == "execute_result"]
        self.assertIn("<svg", data["image/svg+xml"])
        self.assertIn("<svg", data["text/html"])

    def test_a_pass_is_one_line_that_is_written_over(self):
        shown = self.run_cell(NET + "exe.train_from_dataset(dataset=data);")
        lines = [c for kind, c in shown
                 if kind in ("display_data", "update_display_data")]
        self.assertEqual(
            len({c["transient"]["display_id"] for c in lines}), 1, shown)
        self.assertIn("100 samples", lines[-1]["data"]["text/plain"])


if __name__ == "__main__":
    unittest.main()
