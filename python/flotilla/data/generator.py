"""Generators of multi-slot lines, for scripts of a dataset's pipe command."""
import sys


class DataGenerator:
    """A user's class has generate_sample(line): a function that gives samples,
    each a list of (slot, values)."""

    def __init__(self):
        self.batch_size_ = 32

    def set_batch(self, batch_size):
        self.batch_size_ = batch_size

    def generate_sample(self, line):
        raise NotImplementedError("Please rewrite this function to return a "
                                  "list or tuple: [(name, [feasign, ...]), "
                                  "...]")

    def generate_batch(self, samples):
        def all_of():
            yield from samples

        return all_of

    def run_from_stdin(self):
        self._run(sys.stdin)

    def run_from_memory(self):
        self._run([None])

    def _run(self, lines):
        batch = []
        for line in lines:
            for sample in self.generate_sample(line)():
                if sample is None:
                    continue
                batch.append(sample)
                if len(batch) == self.batch_size_:
                    self._write(batch)
                    batch = []
        self._write(batch)

    def _write(self, batch):
        for sample in self.generate_batch(batch)():
            sys.stdout.write(self._gen_str(sample))


def _items(line):
    if not isinstance(line, (list, tuple)):
        raise ValueError("the output of process() must be in list or tuple "
                         "type")
    return line


class MultiSlotStringDataGenerator(DataGenerator):
    def _gen_str(self, line):
        parts = []
        for _, values in _items(line):
            parts.append(str(len(values)))
            parts.extend(values)
        return " ".join(parts) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    def _gen_str(self, line):
        parts = []
        for name, values in _items(line):
            if not isinstance(name, str):
                raise ValueError(f"name {name!r} must be in str type")
            if not values:
                raise ValueError("the elements of each field can not be empty,"
                                 f" please check if {name} is empty")
            parts.append(str(len(values)))
            parts.extend(map(str, values))
        return " ".join(parts) + "\n"
