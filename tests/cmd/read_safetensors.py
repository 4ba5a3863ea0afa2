"""read_safetensors.py FILE... - reads the files as the public format says, with
nothing but the standard library, and with the public package where it is."""
import json
import struct
import sys

BYTES = {"F32": 4, "F64": 8, "I32": 4, "I64": 8, "U32": 4, "U64": 8, "U8": 1,
         "BOOL": 1}

for path in sys.argv[1:]:
    with open(path, "rb") as f:
        file = f.read()
    n, = struct.unpack_from("<Q", file)
    header = json.loads(file[8:8 + n])
    assert file[8:9] == b"{" and (8 + n) % 8 == 0, path
    at = 0
    for name, t in sorted(header.items(), key=lambda i: i[1]["data_offsets"]):
        lo, hi = t["data_offsets"]
        numbers = 1
        for dim in t["shape"]:
            numbers *= dim
        assert lo == at, "%s: a gap before %s" % (path, name)
        assert hi - lo == numbers * BYTES[t["dtype"]], (path, name)
        assert lo % BYTES[t["dtype"]] == 0, (path, name)
        at = hi
    assert 8 + n + at == len(file), path
    print("%s: %d tensors" % (path, len(header)))
    try:
        from safetensors import safe_open
    except ImportError:
        continue
    with safe_open(path, framework="np") as f:
        assert sorted(f.keys()) == sorted(header), path
