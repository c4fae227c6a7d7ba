#!/usr/bin/python3
"""A line on standard error is one write, so that what several ranks and standard output print cannot get into it under mpirun.

A pipe in packet mode keeps the boundaries of writes. $CHARL_BIN_DIR holds the programs.
"""
import os
import pathlib
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.pop("CHARL_BIN_DIR", ""))
CONFIG = """[data]
path = digits.h5
[model]
type = mlp
hidden = 8
[train]
max_steps = 4
batch_size = 16
[checkpoint]
interval = 2
"""


def writes(code, *command):
    """What the command writes to standard error, a string a write; it must end with `code`."""
    end, start = os.pipe2(os.O_DIRECT)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=start) as process:
        os.close(start)
        packets = []
        while packet := os.read(end, 65536):
            packets.append(packet.decode())
    os.close(end)
    assert process.returncode == code, f"{command} ended with {process.returncode}, not {code}:\n{''.join(packets)}"
    return packets


def check(text, packets):
    """Every write ends with a line, and `text` is in one of them."""
    for packet in packets:
        assert packet.endswith("\n"), f"a line in pieces: {packets}"
    assert any(text in packet for packet in packets), f"no write has {text!r}: {packets}"


def main():
    """The cases."""
    charl, train = str(BIN / "charl"), str(BIN / "charl-train")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([charl, "data", "make", "digits", "digits.h5", "-t", "64", "-v", "20"], check=True, stdout=subprocess.DEVNULL)
        pathlib.Path("mlp.ini").write_text(CONFIG, encoding="utf-8")
        check("error: ", writes(3, charl, "data", "info", "missing.h5"))
        check("hint: did you mean", writes(2, charl, "data", "inof"))
        check("error: ", writes(2, train, "mlp.ini", "train.max_step=3"))
        writes(0, train, "mlp.ini", "-o", "run")
        check("warning: training continued from step 2",
              writes(0, train, "mlp.ini", "-o", "run", "train.max_steps=3",
                     "--resume=run/checkpoints/step-00000002.h5"))


main()
