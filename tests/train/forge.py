"""What a forger does with a proof (test_prove.sh), with new hashes, so that it is consistent in itself.

forge.py unpack PROOF DIR              its files, in DIR
forge.py pack PROOF DIR OUT [DEVICE]   OUT is PROOF with the files of DIR
forge.py weight CHECKPOINT             adds a little to the first weight
forge.py segments PROOF [FROM UNTIL]   PROOF has this segment alone, or none
"""
import hashlib
import os
import sys

import h5py
import numpy


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ 0x82F63B78 if i & 1 else i >> 1
        table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def lines(file):
    return bytes(file["manifest"][:]).decode().splitlines()


def set_lines(file, text):
    """Replaces the manifest by lines and their hash, as charl writes it."""
    data = ("\n".join(text) + "\n").encode()
    attribute = file["manifest"].attrs.get_id("sha256")
    kind = attribute.get_type()
    del file["manifest"]
    manifest = file.create_dataset("manifest", data=numpy.frombuffer(data, "u1"), track_times=False)
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    new = h5py.h5a.create(manifest.id, b"sha256", kind, space)
    new.write(numpy.array(hashlib.sha256(data).hexdigest().encode(), "S64"), kind)


def files(manifest):
    """Of each file: name, size, index of its line, parts."""
    found = []
    for i, line in enumerate(manifest):
        word = line.split()
        if word[0] == "file":
            found.append([word[1], int(word[2]), i, []])
        elif word[0] == "part":
            found[-1][3].append((int(word[1]), int(word[2])))
    return found


def unpack(proof, folder):
    with h5py.File(proof) as f:
        for number, (name, size, _, parts) in enumerate(files(lines(f))):
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data, at = bytes(f[f"files/{number}"][:]), 0
            with open(path, "wb") as out:
                for first, count in parts:
                    out.seek(first)
                    out.write(data[at:at + count])
                    at += count
                out.truncate(size)


def pack(proof, folder, out, device=None):
    """A file that has another size than before is held as a whole."""
    with open(out, "wb") as copy, open(proof, "rb") as original:
        copy.write(original.read())
    with h5py.File(out, "r+", libver=("v110", "v110")) as f:
        manifest = lines(f)
        text = [f"device {device}" if device and line.startswith("device ") else line
                for line in manifest if not line.startswith(("file ", "part "))]
        for number, (name, size, _, parts) in enumerate(files(manifest)):
            with open(os.path.join(folder, name), "rb") as changed:
                data = changed.read()
            parts = parts if len(data) == size else [(0, len(data))]
            held = b"".join(data[first:first + count] for first, count in parts)
            del f[f"files/{number}"]
            f.create_dataset(f"files/{number}", data=numpy.frombuffer(held, "u1"), track_times=False)
            text.append(f"file {name} {len(data)} {hashlib.sha256(held).hexdigest()}")
            text += [f"part {first} {count}" for first, count in parts]
        set_lines(f, text)


def weight(checkpoint):
    with h5py.File(checkpoint, "r+", libver=("v110", "v110")) as f:
        manifest = lines(f)
        i = next(i for i, line in enumerate(manifest) if line.startswith("/model/"))
        word = manifest[i].split()
        values = f[word[0]][:]
        values.flat[0] = numpy.nextafter(values.flat[0], numpy.float32(1e9))
        f[word[0]][:] = values
        crc = crc32c(values.tobytes())
        f[word[0]].attrs.modify("crc32c", numpy.uint32(crc))
        word[4] = f"{crc:08x}"
        manifest[i] = " ".join(word)
        set_lines(f, manifest)


def segments(proof, *ends):
    with h5py.File(proof, "r+", libver=("v110", "v110")) as f:
        text = [line for line in lines(f) if not line.startswith("segment ")]
        set_lines(f, text + ([f"segment {' '.join(ends)}"] if ends else []))


{"unpack": unpack, "pack": pack, "weight": weight, "segments": segments}[sys.argv[1]](*sys.argv[2:])
