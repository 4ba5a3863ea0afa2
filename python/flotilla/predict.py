"""Scores from a saved model, without what trains it.

    predictor = flotilla.Predictor("models/ctr")
    score, = predictor.run({"ids": ids})

A model is for all threads; each thread has a predictor of its own (clone).
"""
import numpy as np

from . import _core, feeding, fetched, ir, tensor, types
from .io_inference import model_folder


class Input:
    """What a model takes or gives; -1 is what a batch decides."""

    def __init__(self, name, dtype, lod_level, shape):
        self.name, self.lod_level, self.shape = name, lod_level, shape
        self.dtype = types.from_core(dtype)

    def __repr__(self):
        shape = ", ".join(map(str, self.shape))
        return f"{self.name} : {types.name_of(self.dtype)}[{shape}]"


class Predictor:
    """Scores of one model. `targets` are for one that was saved to train on;
    watch_ms takes newer versions as they appear; `servers` is the address of
    server 0 of a job whose rows are used as they are at that moment."""

    def __init__(self, path, targets=None, watch_ms=0, verify=False,
                 optimize=True, in_memory=False, servers=None,
                 model_filename=None, params_filename=None):
        with model_folder(path, model_filename, params_filename) as folder:
            self._model = _core.model_open(ir.ctx, folder, targets or [],
                                           watch_ms, verify, optimize,
                                           in_memory, servers)
        self._take_vars()

    def _take_vars(self):
        self._handle = _core.predictor_new(self._model)
        inputs, outputs = _core.model_vars(self._model)
        self.inputs = [Input(*v) for v in inputs]
        self.outputs = [Input(*v) for v in outputs]

    def clone(self):
        """One for another thread, of the same model."""
        other = object.__new__(type(self))
        other._model = self._model
        other._take_vars()
        return other

    def run(self, feed, return_numpy=True):
        """What the model gives for a batch, in the order of its outputs."""
        known = {v.name: v for v in self.inputs}
        ready = {name: feeding.contiguous(value, known.get(name))
                 for name, value in feeding.named(feed).items()}
        found = _core.predict(self._handle, ready, len(self.outputs))
        if return_numpy:
            return fetched.values([np.asarray(t) for t in found])
        return [tensor.as_value(t) for t in found]

    def run_dataset(self, dataset, threads=0):
        """The scores of all records of a dataset, in their order when one
        thread reads: of each the last number of the first output. Slots are
        inputs by their names, others are left out. threads=0: one per core."""
        return np.asarray(_core.predict_dataset(self._model, dataset._handle,
                                                threads))

    def stats(self):
        """Runs, records, rows that were asked for and missing, versions."""
        return _core.model_stats(self._model)

    def refresh(self):
        """Looks for a newer version now."""
        _core.model_refresh(self._model)
