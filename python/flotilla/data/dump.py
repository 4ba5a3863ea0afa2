"""What variables hold, record by record, written down while a pass trains:
set_debug_opt of a strategy, with debug=True."""
import os

import numpy as np

from .. import near, tensor

_OPTIONS = ("dump_fields", "dump_param", "dump_fields_path")


def options(given):
    """The options of set_debug_opt, those that are not there refused."""
    unknown = [n for n, v in given.items() if n not in _OPTIONS and v]
    if unknown:
        raise NotImplementedError(
            f"set_debug_opt: {unknown[0]} is not there"
            f"{near.hint(unknown[0], _OPTIONS)}; one file of a worker has the "
            f"lines that {', '.join(_OPTIONS)} ask for")
    return {"dump_fields": [f for f in given.get("dump_fields", []) if f],
            "dump_param": [p for p in given.get("dump_param", []) if p],
            "dump_fields_path": given.get("dump_fields_path", "")}


def is_wanted(given):
    """Both a field and a folder are."""
    return bool(given and given["dump_fields"] and given["dump_fields_path"])


def _numbers(array):
    return "".join(f":{n:g}" if isinstance(n, float) else f":{n}"
                   for n in array.ravel().tolist())


def _lines(n_records, fields):
    """A line for each record; a field that has no rows of its own for each is
    left out."""
    lines = [""] * n_records
    for name, value in fields.items():
        array, lod = np.asarray(value), value.lod()
        offsets = lod[0] if lod else range(len(array) + 1)
        if array.ndim != 2 or len(offsets) != n_records + 1:
            continue
        for i in range(n_records):
            rows = array[offsets[i]:offsets[i + 1]]
            lines[i] += f"\t{name}:{array.shape[1]}{_numbers(rows)}"
    return [line for line in lines if line]


def _params(batch, names, scope):
    for name in names:
        found = scope.find_var(name)
        if found is not None:
            value = np.asarray(found.get_tensor())
            yield f"({batch},{name}){_numbers(value)}"


def train(exe, program, dataset, scope, given):
    """A pass, batch by batch in this thread, with its lines in a file of the
    folder; gives how many records and batches there were."""
    folder = given["dump_fields_path"]
    os.makedirs(folder, exist_ok=True)
    block = program.global_block()
    fields = [f for f in given["dump_fields"] if block.has_var(f)]
    counts = {"samples": 0, "batches": 0}
    path = os.path.join(folder, f"part-{given['rank']:03}-00000")
    with open(path, "w", encoding="utf-8") as f:
        for n, feeds in dataset._batches():
            feed = {k: tensor.as_value(t) for k, t in feeds.items()}
            found = exe.run(program, feed, fields, scope=scope,
                            return_numpy=False)
            lines = _lines(n, dict(zip(fields, found)))
            lines += _params(counts["batches"], given["dump_param"], scope)
            f.writelines(line + "\n" for line in lines)
            counts["samples"] += n
            counts["batches"] += 1
    return counts
