"""Messages of Google's protocol buffers, read without their description."""
import struct


def varint(data, at):
    """A varint and where it ends."""
    value, shift = 0, 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The fields of a message: (number, value)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack("<d", data[at:at + 8])[0], at + 8
        elif kind == 5:
            value, at = struct.unpack("<f", data[at:at + 4])[0], at + 4
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value
