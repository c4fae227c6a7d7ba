#!/usr/bin/python3
"""charl reads the same numbers as h5py, whatever the type, the byte order, the layout, the filters and the files that they are spread over; and
refuses by name what it cannot read.

Needs h5py, and hdf5plugin with the plug-ins for blosc and zstd, which comes from PyPI (environment.py). Exit code 77: they cannot be had.
$CHARL_BIN_DIR holds the programs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

environment.enter("hdf5")

# pylint: disable=wrong-import-position
try:
    import h5py
    import hdf5plugin
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

READ = environment.BIN.parent.parent / "tests" / "interop" / "read_dataset"
ROWS, SHAPE = 90, (3, 5)


def read(path, x="/x", y="/y", threads=2, cache=0, env=None):
    done = subprocess.run([READ, path, x, y, str(threads), str(cache)], stdout=subprocess.PIPE, check=True, text=True, timeout=1500,
                          env=dict(os.environ, **(env or {})))
    return json.loads(done.stdout)


def samples(dtype):
    """Numbers that every type of this kind holds, and the extremes that f32 holds exactly."""
    n = ROWS * int(np.prod(SHAPE))
    x = (np.arange(n) * 7 % 127).astype(np.float64)
    if dtype.kind == "f":
        x = (x - 60) / 8
    elif dtype.kind == "i":
        x -= 60
    elif dtype.kind == "b":
        x %= 2
    x = x.astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x[1] = info.min
        x[2] = info.max if info.bits < 32 else 2**24 if dtype.kind == "i" or info.bits == 64 else info.max
    if dtype.kind == "f":
        x[3] = np.finfo(dtype).tiny if dtype.itemsize < 8 else 2.0**-126
        x[4] = np.finfo(dtype).max if dtype.itemsize < 8 else np.finfo(np.float32).max
        x[5] = np.float16(2.0**-24) if dtype.itemsize == 2 else 0.1
        x[6] = -0.0
    return x.reshape(ROWS, *SHAPE)


def labels(dtype):
    n = np.arange(ROWS)
    return (n % 2 if dtype.kind == "b" else n % 5).astype(dtype)


def bfloat16(order):
    """HDF5's description of bfloat16 in a byte order."""
    t = (h5py.h5t.IEEE_F32LE if order == "<" else h5py.h5t.IEEE_F32BE).copy()
    t.set_fields(15, 7, 8, 0, 7)
    t.set_size(2)
    t.set_ebias(127)
    return t


def write_bfloat16(f, name, order, chunks=None):
    """h5py has no such type: HDF5 converts from f32."""
    x = samples(np.dtype("i1")).astype(np.float32) / 4
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks:
        plist.set_chunk(chunks)
        plist.set_deflate(4)
    d = h5py.h5d.create(f.id, name.encode(), bfloat16(order), h5py.h5s.create_simple(x.shape), plist)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
    return x


def same(got, x, y):
    """The numbers of x and y, to the last bit of f32."""
    assert "error" not in got, got["error"]
    expected = x.astype(np.float32).reshape(-1) if got["x_dtype"] == "f32" else x.astype(np.int64).reshape(-1)
    received = np.array(got["x"], dtype=expected.dtype)
    assert np.array_equal(expected.view(np.int32) if expected.dtype == np.float32 else expected,
                          received.view(np.int32) if expected.dtype == np.float32 else received), \
        f"x differs first at {np.flatnonzero(expected != received)[:3]}: {received[:8]} for {expected[:8]}"
    assert np.array_equal(np.asarray(got["y"]), y.astype(np.float64)), f"y differs: {got['y'][:8]} for {y[:8]}"


def types():
    for order in "<>":
        for name in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"):
            if order == "<" or name[1] != "1":
                yield np.dtype(order + name)
    yield np.dtype("?")


def layouts(plugins):
    """(what, type, options of h5py) of x."""
    yield "chunked", "u1", {"chunks": (7, 3, 5)}
    yield "rows of a chunk", ">i2", {"chunks": (1, 3, 5)}
    yield "parts of a row", "f4", {"chunks": (8, 2, 2)}
    yield "parts of a row, gzip", ">f8", {"chunks": (11, 1, 3), "compression": "gzip"}
    yield "larger than the array", "u2", {"chunks": (64, 4, 8), "maxshape": (None, None, None), "compression": "gzip"}
    yield "gzip", "u1", {"chunks": (16, 3, 5), "compression": "gzip", "compression_opts": 9}
    yield "gzip, shuffle", "f4", {"chunks": (16, 3, 5), "compression": "gzip", "shuffle": True}
    yield "gzip, shuffle, fletcher32", ">u4", {"chunks": (16, 3, 5), "compression": "gzip", "shuffle": True, "fletcher32": True}
    yield "fletcher32", "f8", {"chunks": (7, 3, 5), "fletcher32": True}
    yield "fletcher32 of odd bytes", "u1", {"chunks": (7, 3, 5), "fletcher32": True}
    yield "shuffle", ">f2", {"chunks": (5, 3, 5), "shuffle": True}
    yield "lzf", "i4", {"chunks": (16, 3, 5), "compression": "lzf"}
    yield "lzf, shuffle, fletcher32", "f4", {"chunks": (9, 3, 5), "compression": "lzf", "shuffle": True, "fletcher32": True}
    if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        yield "szip", "u2", {"chunks": (16, 3, 5), "compression": "szip"}
    yield "scale-offset", "i4", {"chunks": (16, 3, 5), "scaleoffset": 0}
    for name, options in plugins:
        yield name, "f4", {"chunks": (16, 3, 5), **options}


def plugin_filters():
    """Filters that HDF5 loads from plug-ins."""
    return [(name, dict(getattr(hdf5plugin, name)())) for name in ("Blosc", "Zstd", "Bitshuffle", "LZ4")]


def virtual_file(x, y, per, options):
    """virtual/v.h5 shows rows of two other files and of itself, which hold spare rows too; a row of it is `per` rows of theirs."""
    os.makedirs("virtual", exist_ok=True)
    shown = {"x": h5py.VirtualLayout(x.shape, x.dtype), "y": h5py.VirtualLayout(y.shape, y.dtype)}
    for path, first, end in (("v.h5", 40, ROWS), ("a.h5", 0, 13), ("b.h5", 13, 40)):
        with h5py.File("virtual/" + path, "w") as f:
            for name, data in (("x", x), ("y", y)):
                held = np.concatenate([data[-2:], data[first:end], data[:3]])
                held = held.reshape(-1, *data.shape[2:]) if name == "x" and per > 1 else held
                own = f.create_dataset(f"held/{name}", data=held, **(options if name == "x" else {}))
                begin, count = (2 * per, (end - first) * per) if name == "x" else (2, end - first)
                shown[name][first:end] = h5py.VirtualSource("." if path == "v.h5" else path, f"held/{name}", own.shape)[begin:begin + count]
    with h5py.File("virtual/v.h5", "a") as v:
        for name, layout in shown.items():
            v.create_virtual_dataset(name, layout, fillvalue=0)


def virtual_refusals():
    x, y = samples(np.dtype("u1")), labels(np.dtype("u1"))

    def refused_virtual(change, reason):
        virtual_file(x, y, 1, {})
        change()
        error = read("virtual/v.h5").get("error", "nothing")
        assert reason in error, f"refused with: {error}; expected: {reason}"

    def redo(layout):
        with h5py.File("virtual/v.h5", "a") as f:
            del f["x"]
            f.create_virtual_dataset("x", layout, fillvalue=0)

    def layout(shown, taken, path="a.h5", dtype="u1"):
        v = h5py.VirtualLayout(x.shape, dtype)
        v[shown] = h5py.VirtualSource(path, "held/x", (13 + 5, *SHAPE), dtype="u1")[taken]
        return v

    refused_virtual(lambda: pathlib.Path("virtual/a.h5").unlink(), "/x is virtual, and its source a.h5 is missing")
    refused_virtual(lambda: redo(layout(np.s_[0:13], np.s_[0:13])), "/x is virtual, and row 13 has no source or several")
    refused_virtual(lambda: redo(layout(np.s_[0:26:2], np.s_[0:13])), "shows other than whole rows of virtual/a.h5/held/x")
    refused_virtual(lambda: redo(layout(np.s_[0:13, 0:2], np.s_[0:13, 0:2])), "shows other than whole rows of virtual/a.h5/held/x")
    refused_virtual(lambda: redo(layout(np.s_[0:10], np.s_[0:15, 0:2])), "shows other than whole rows of virtual/a.h5/held/x")
    refused_virtual(lambda: redo(layout(np.s_[0:13], np.s_[0:13], dtype="f4")), "/x is virtual and holds f32, but its source")
    refused_virtual(lambda: redo(layout(np.s_[0:13], np.s_[0:13], path="part-0.h5")), "part-0.h5: there is no array /held/x")

    def shorter():
        with h5py.File("virtual/a.h5", "w") as f:
            f["held/x"], f["held/y"] = x[:9], y[:9]
    refused_virtual(shorter, "shows rows of virtual/a.h5/held/x up to 15, which has 9")

    def nested():
        with h5py.File("virtual/a.h5", "w") as f:
            v = h5py.VirtualLayout((18, *SHAPE), "u1")
            v[:] = h5py.VirtualSource("b.h5", "held/x", (32, *SHAPE))[0:18]
            f.create_virtual_dataset("held/x", v)
    refused_virtual(nested, "/held/x, the source of a virtual array, is virtual itself")


def check_storage(what):
    """`charl data info` tells the chunks, filters and bytes that h5py does."""
    done = subprocess.run([environment.BIN / "charl", "data", "info", "t.h5", "-x", "/x", "-y", "/y"], stdout=subprocess.PIPE, check=True,
                          text=True, timeout=1500, env={k: v for k, v in os.environ.items() if k != "CHARL_BIN_DIR"})
    with h5py.File("t.h5") as f:
        d = f["x"]
        filters = ", ".join(name for name in ("shuffle", d.compression) if name != "shuffle" or d.shuffle)
        stored, whole = (f"{v / 1000:.3g} kB" if v >= 1000 else f"{v} bytes" for v in (d.id.get_storage_size(), d.nbytes))
        line = f"stored     /x chunks of {' x '.join(map(str, d.chunks))}, {filters}, {stored} instead of {whole}\n"
    assert line in done.stdout and "\n  speed      shuffled " in done.stdout, f"{what}: {line} not in {done.stdout}"


def table():
    plugins, env = plugin_filters(), {"HDF5_PLUGIN_PATH": hdf5plugin.PLUGINS_PATH}
    n = 0
    for dtype in types():
        x, y = samples(dtype), labels(dtype)
        with h5py.File("t.h5", "w") as f:
            f["x"], f["y"] = x, y
        same(read("t.h5"), x, y)
        n += 1
    for order in "<>":
        for chunks in (None, (16, *SHAPE)):
            with h5py.File("t.h5", "w") as f:
                x, y = write_bfloat16(f, "x", order, chunks), labels(np.dtype(order + "i2"))
                f["y"] = y
            same(read("t.h5"), x, y)
            n += 1
    for what, dtype, options in layouts(plugins):
        x, y = samples(np.dtype(dtype)), labels(np.dtype(">i4"))
        with h5py.File("t.h5", "w") as f:
            f.create_dataset("x", data=x, **options)
            f.create_dataset("y", data=y, chunks=(13,), **({"compression": "gzip"} if "gzip" in what else {}))
        for threads, cache in ((1, 1), (2, 0), (4, 3000)):
            try:
                same(read("t.h5", threads=threads, cache=cache, env=env), x, y)
            except AssertionError as wrong:
                raise AssertionError(f"{what}, {threads} threads, cache of {cache} bytes: {wrong}") from wrong
        if what in ("parts of a row, gzip", "gzip, shuffle", "lzf"):
            check_storage(what)
        n += 1
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    x, y = samples(np.dtype(">u2")), labels(np.dtype("u1"))
    with h5py.File("t.h5", "w") as f:
        d = h5py.h5d.create(f.id, b"x", h5py.h5t.STD_U16BE, h5py.h5s.create_simple(x.shape), compact)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
        f["y"] = y
    same(read("t.h5"), x, y)
    n += 1
    with h5py.File("t.h5", "w", userblock_size=1024) as f:
        f.create_dataset("x", data=x, chunks=(8, 3, 5), compression="gzip")
        f["y"] = y
    same(read("t.h5"), x, y)
    n += 1
    for dtype, options in (("u1", {}), (">f4", {"chunks": (8, 3, 5), "compression": "gzip"}), ("i2", {"chunks": (5, 2, 2)})):
        x, y = samples(np.dtype(dtype)), labels(np.dtype("i8"))
        for part, (first, end) in enumerate(((0, 13), (13, 14), (14, ROWS))):
            with h5py.File(f"part-{part}.h5", "w") as f:
                f.create_dataset("x", data=x[first:end], **(options if end - first > 8 else {}))
                f["y"] = y[first:end]
        for threads, cache in ((1, 1), (2, 0), (3, 2000)):
            same(read("part-*.h5", threads=threads, cache=cache), x, y)
        n += 1
    for what, dtype, options in (("rows", "u1", {}), ("rows", ">f4", {"chunks": (8, 3, 5), "compression": "gzip"}), ("parts of a row", "i2", {})):
        x, y = samples(np.dtype(dtype)), labels(np.dtype("i8"))
        virtual_file(x, y, 1 if what == "rows" else 3, options)
        for threads, cache in ((1, 1), (2, 0), (3, 2000)):
            same(read("virtual/v.h5", threads=threads, cache=cache), x, y)
        n += 1
    with h5py.File("part-9.h5", "w") as f:
        f["x"], f["y"] = x[:, :2], y
    error = read("part-*.h5").get("error", "nothing")
    assert "part-9.h5: rows of /x differ in type or shape from those of part-0.h5" in error, error
    pathlib.Path("part-9.h5").unlink()
    assert "no file matches" in read("none-*.h5")["error"]
    return n


def imported(code, *arguments):
    """charl data import hdf5: what it prints, and it ends with `code`."""
    done = subprocess.run([environment.BIN / "charl", "data", "import", "hdf5", "-w", "-o", "out.h5", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500, check=False,
                          env={k: v for k, v in os.environ.items() if k != "CHARL_BIN_DIR"})
    assert done.returncode == code, f"{arguments}: {done.returncode}: {done.stdout}"
    return done.stdout


def got(x, y, names=None):
    """out.h5 holds these."""
    with h5py.File("out.h5") as f:
        assert np.array_equal(f["train/x"][:], x) and np.array_equal(f["train/y"][:], y), (f["train/x"].shape, f["train/y"][:], y)
        have = f.attrs["class_names"].decode() if "class_names" in f.attrs else None
        assert have == names, (have, names)


def attributes():
    """Targets that are attributes: of arrays, of groups, of every type; arrays that are samples, and those whose rows are."""
    draw = np.random.default_rng(5)
    x = draw.integers(0, 255, (6, 4, 5)).astype("i2")
    words = ["cat", "dog", "cat", "ant", "dog", "cat"]
    options = ({}, {"chunks": (2, 5), "compression": "gzip"}, {"compression": "lzf"}, {"dtype": "f8"}, {}, {"compression": "gzip", "shuffle": True})
    with h5py.File("s.h5", "w") as f:  # a group for each sample; names in an order that is not that of the file
        for i in (3, 0, 5, 1, 4, 2):
            g = f.create_group(f"s{i}")
            g.create_dataset("image", data=x[i], **options[i])
            g.attrs["label"] = words[i] if i % 2 else np.bytes_(words[i])
            g["noise"] = 1
        f["notes/text"] = "no sample"
    said = imported(0, "s.h5", "--x", "/*/image", "--y", "@label")
    got(x, [1, 2, 1, 0, 2, 1], "ant\ncat\ndog")
    assert "note: left out: 1 group without an array /*/image" in said, said
    with h5py.File("s.h5", "r+") as f:  # the array's own comes first; numbers as they are
        for i in range(6):
            f[f"s{i}/image"].attrs["label"] = np.uint8(i // 2) if i else np.bool_(False)
    imported(0, "s.h5", "--x", "s[0-9]/image", "--y", "@label")
    got(x, [0, 0, 1, 1, 2, 2])
    with h5py.File("s.h5", "r+") as f:
        for i in range(6):
            f[f"s{i}/image"].attrs["label"] = i / 4
    imported(0, "s.h5", "--x", "s?/image", "--y", "@label")
    got(x, [i / 4 for i in range(6)])
    for i, name in enumerate(("b.h5", "a.h5")):  # a group for each class, in several files
        with h5py.File(name, "w") as f:
            for j, word in enumerate(("zebra", "eel")):
                g = f.create_group(f"class{j}")
                g.attrs["name"] = word
                g.create_dataset("rows", data=x[3 * i + j:3 * i + 2 * j + 1], chunks=(1, 4, 5), compression="gzip")
    imported(0, "a.h5", "b.h5", "--x", "/*/rows", "--y", "@name", "--stacked")
    got(x[[3, 4, 5, 0, 1, 2]], [1, 0, 0, 1, 0, 0], "eel\nzebra")
    imported(0, "a.h5", "b.h5", "--x", "/*/rows", "--y", "@name", "--stacked", "--val-split", "0.34")
    with h5py.File("out.h5") as f:  # of each class in proportion, and not the last rows
        assert sorted(f["val/y"][:]) == [0, 1] and len(f["train/y"]) == 4, (f["val/y"][:], f["train/y"][:])
    said = subprocess.run([environment.BIN / "charl", "data", "info", "s.h5"], stderr=subprocess.PIPE, text=True, check=False,
                          env={k: v for k, v in os.environ.items() if k != "CHARL_BIN_DIR"}).stderr
    assert "/s0/image i16 [4, 5], /s1/image i16 [4, 5], " in said and " and more: name" in said and "--x '/*/image' --y @NAME" in said, said
    imported(0, "a.h5", "--x", "class1/rows", "--y", "@name", "--stacked")
    got(x[4:6], [0, 0], "eel")
    for arguments, code, reason in (
            (("--x", "/*/rows", "--y", "@name"), 3, "a.h5: the samples of /class0/rows and /class1/rows have different types or shapes"),
            (("--x", "/*/rows", "--y", "@color", "--stacked"), 3, 'a.h5: neither /class0/rows nor a group that it is in has an attribute "color"'),
            (("--x", "/*/none", "--y", "@name"), 3, "a.h5: no array matches /*/none"),
            (("--x", "/*/rows", "--y", "/labels"), 2, "x of several arrays needs --y @NAME"),
            (("--x", "/*/rows", "--y", "@"), 2, "y names no attribute; write @NAME"),
            (("--y", "@name"), 2, "y also needs --x"),
            (("--x", "/rows", "--y", "/labels", "--stacked"), 2, "stacked needs --y @NAME"),
            (("--x", "/*/rows", "--y", "@name", "--weights", "/w"), 2, "weights goes without --y @NAME")):
        said = imported(code, "a.h5", *arguments)
        assert reason in said, f"{arguments}: {said}"
    with h5py.File("a.h5", "r+") as f:
        f["class1"].attrs["name"] = 0.5
    assert 'targets are numbers, but one is "zebra"' in imported(3, "a.h5", "--x", "/*/rows", "--y", "@name", "--stacked")
    for value, reason in (([1, 2], "attribute name is not a single value"), ("", "a class name that is empty"),
                          ("a\tb", "a class name with"), (np.complex64(1), "attribute name is neither a number nor text"),
                          (np.nan, "targets are numbers, but one is")):
        with h5py.File("a.h5", "r+") as f:
            f["class1"].attrs["name"] = value
        said = imported(3, "a.h5", "--x", "/*/rows", "--y", "@name", "--stacked")
        assert reason in said, f"{value}: {said}"
    with h5py.File("a.h5", "r+") as f:
        f["class1"].attrs.create("name", 1, dtype=h5py.enum_dtype({"one": 1}, basetype="i4"))
    assert "attribute name is an enumeration" in imported(3, "a.h5", "--x", "/*/rows", "--y", "@name", "--stacked")
    with h5py.File("a.h5", "w") as f:
        f["deep"], f["soft"] = np.zeros((1,) * 6), h5py.SoftLink("/deep")
        f.create_dataset("whole", (1 << 19, 600), dtype="f4")
        f["whole"][-1] = 1
        f.attrs["name"] = 1
    for name, reason in (("deep", "/deep has 6 dimensions, a sample has at most 5"), ("soft", "/soft has 6 dimensions"),
                         ("whole", "too many for a sample\n  hint: --stacked if its rows are samples")):
        said = imported(3, "a.h5", "--x", name, "--y", "@name")
        assert reason in said, f"{name}: {said}"


def refused(write, reason, env=None):
    with h5py.File("t.h5", "w") as f:
        f["x"], f["y"] = samples(np.dtype("u1")), labels(np.dtype("u1"))
        write(f)
    error = read("t.h5", env=env).get("error", "nothing")
    assert reason in error and "t.h5" in error, f"refused with: {error}; expected: {reason}"


def put(name, data, **options):
    def write(f):
        del f[name]
        f.create_dataset(name, data=data, **options)
    return write


def refusals():
    x = samples(np.dtype("i8"))
    x[4, 1, 2] = 2**24 + 1
    refused(put("x", x), "/x: 16777217 in row 4 (element 7) cannot be represented exactly in f32")
    x = samples(np.dtype(">u8"))
    x[0, 0, 0] = 2**64 - 1
    refused(put("x", x), "/x: 18446744073709551615 in row 0 (element 0) cannot be represented exactly in f32")
    y = labels(np.dtype("u8"))
    y[5] = 2**63
    refused(put("y", y), "/y: 9223372036854775808 in row 5 (element 0) is too large for a label")
    y = labels(np.dtype("i8"))
    y[6] = 2**31
    refused(put("y", y), "/y: 2147483648 in row 6 is not a class")
    refused(put("x", samples(np.dtype("f4")) * 1j), "/x holds complex numbers")
    refused(put("x", np.zeros(ROWS, dtype=[("a", "f4"), ("b", "i4")])), "/x holds records of 2 fields")
    refused(put("x", np.array([b"a"] * ROWS)), "/x holds text")
    refused(put("x", np.full((ROWS, *SHAPE), 1e300)), "/x: row 0 holds a NaN or an infinity")
    refused(put("x", samples(np.dtype("f4")).astype(np.longdouble)), "/x holds floats of 16 bytes")

    def half_written(f):
        del f["x"]
        f.create_dataset("x", (ROWS, *SHAPE), dtype="f4", chunks=(16, 3, 5), compression="gzip")[:20] = 1
    refused(half_written, "/x was only partly written")

    def damage(options, at):
        """A byte of the first chunk is changed."""
        with h5py.File("t.h5", "w") as f:
            d = f.create_dataset("x", data=samples(np.dtype("u1")), chunks=(16, 3, 5), **options)
            f["y"] = labels(np.dtype("u1"))
            where = d.id.get_chunk_info(0).byte_offset + at
        raw = bytearray(pathlib.Path("t.h5").read_bytes())
        raw[where] ^= 0x10
        pathlib.Path("t.h5").write_bytes(raw)
        return read("t.h5").get("error", "nothing")

    for options, reason in (({"fletcher32": True}, "its checksum differs: the file is damaged"),
                            ({"compression": "gzip"}, "it cannot be inflated: the file is damaged")):
        error = damage(options, 9)
        assert "/x: rows 0 to 15 cannot be read: chunk 0" in error and reason in error, error


with tempfile.TemporaryDirectory() as here:
    os.chdir(here)
    read_alike = table()
    refusals()
    virtual_refusals()
    attributes()
assert read_alike >= 40, f"only {read_alike} combinations"
print(f"{read_alike} files of h5py's read alike")
