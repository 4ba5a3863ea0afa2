"""Generators of multi-slot lines, for scripts of a dataset's pipe command."""
import numbers
import sys


class DataGenerator:
    """A user's class has generate_sample(line): a function that gives samples,
    each a list of (slot, values)."""

    def __init__(self):
        self.batch_size_ = 32
        self._proto_info = None

    def set_batch(self, batch_size):
        """How many samples generate_batch gets at a time."""
        self.batch_size_ = batch_size

    def generate_sample(self, line):
        """A generator of the records of a line; whoever inherits writes it."""
        raise NotImplementedError("Please rewrite this function to return a "
                                  "list or tuple: [(name, [feasign, ...]), "
                                  "...]")

    def generate_batch(self, samples):
        """A generator of what a list of records becomes; the same unless it is
        overridden."""
        def all_of():
            yield from samples

        return all_of

    def _gen_str(self, line):
        raise NotImplementedError("pls use MultiSlotDataGenerator or "
                                  "MultiSlotStringDataGenerator")

    def run_from_stdin(self):
        """Prints the records of the lines that are read."""
        self._run(sys.stdin)

    def run_from_memory(self):
        """Prints the records of generate_sample(None)."""
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


def _fields(line):
    """[(name, values), ...] of whatever gives pairs."""
    if isinstance(line, (str, bytes)):
        raise ValueError("the output of process() must be in list or tuple "
                         f"type, not {line!r}")
    try:
        return [(name, list(values)) for name, values in line]
    except (TypeError, ValueError):
        raise ValueError(
            "the output of process() must be in list or tuple type: [('words',"
            f" [1926, 8, 17]), ('label', [1])], not {line!r}") from None


def _line(fields):
    return " ".join(" ".join([str(len(values)), *map(str, values)])
                    for _, values in fields) + "\n"


class MultiSlotStringDataGenerator(DataGenerator):
    """Values are texts, written as they are."""

    def _gen_str(self, line):
        return _line(_fields(line))


def _kind(name, values):
    """What a slot holds: uint64 or float."""
    if not isinstance(name, str):
        raise ValueError(f"name {name!r} must be in str type")
    if not values:
        raise ValueError("the elements of each field can not be empty, please "
                         f"check if {name} is empty")
    for value in values:
        if not isinstance(value, numbers.Real):
            raise ValueError(f"{value!r} of {name} must be in int or float")
    whole = all(isinstance(v, numbers.Integral) for v in values)
    return "uint64" if whole else "float"


class MultiSlotDataGenerator(DataGenerator):
    """Values are numbers; every line has the slots of the first."""

    def _gen_str(self, line):
        fields = _fields(line)
        kinds = [(name, _kind(name, values)) for name, values in fields]
        if self._proto_info is None:
            self._proto_info = kinds
        if len(kinds) != len(self._proto_info):
            raise ValueError(
                "the complete field set of two given line are inconsistent: "
                f"{len(kinds)} fields after {len(self._proto_info)}")
        for i, (known, new) in enumerate(zip(self._proto_info, kinds)):
            if known[0] != new[0]:
                raise ValueError("the field name of two given line are not "
                                 f"match: require<{known[0]}>, get<{new[0]}>.")
            if new[1] == "float":
                self._proto_info[i] = new
        return _line(fields)
