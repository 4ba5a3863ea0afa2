"""What a run leaves behind about itself, for `flotilla report` and TensorBoard.

Passes over data tell of themselves where the settings record_dir and
tensorboard_dir, or the variables FLOTILLA_RECORD_DIR and
FLOTILLA_TENSORBOARD_DIR, name a folder. These add what only the script knows.
"""
from . import _core, ir


def number(name, step, value):
    """A point of a curve: number("epoch/test/ndcg", 300, 0.75)."""
    _core.record_number(ir.ctx, name, int(step), float(value))


def note(name, text):
    """A fact about the run; of one name the last counts."""
    _core.record_note(ir.ctx, name, str(text))
