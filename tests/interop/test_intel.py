#!/usr/bin/python3
"""Intel's OpenCL runtime for CPUs gives PoCL's bits: ten operators, and a training whose hash is recorded.

CHARL_TEST_LONG=1: all operators, all examples, and jobs with a rank on each of the two. The runtime comes from PyPI; exit code 77: it cannot be had, or does not run on this CPU.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "train" / "test_examples.py"
BIN = environment.BIN.resolve()
LONG = bool(os.environ.pop("CHARL_TEST_LONG", ""))
for name in ("CHARL_BIN_DIR", "CHARL_TEST_SHORT", "CHARL_TEST_DATA"):  # charl warns of variables that it does not know
    os.environ.pop(name, None)
OPERATORS = ["sum", "softmax", "exp", "gelu", "layer_norm", "rms_norm", "max_pool2d_grad", "dropout", "embedding", "cross_entropy"]
MIXED = ["digits", "shakespeare+llama+bf16"]
RUNTIME = "Intel(R) OpenCL"


def vendors(*libraries):
    """What finds these drivers alone."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="."))
    for number, library in enumerate(libraries):
        (folder / f"{number}.icd").write_text(f"{library}\n")
    return {"OCL_ICD_VENDORS": str(folder.resolve()), "CHARL_DEVICE": "0"}


def hashes(where, *operators):
    """What `charl selftest --hash` prints of operators, or of all."""
    found = []
    for options in [["--op", name] for name in operators] or [["--verbose"]]:
        done = subprocess.run([BIN / "charl", "selftest", "--hash", *options], env=dict(os.environ, **where), check=True,
                              stdout=subprocess.PIPE, text=True)
        device, rest = done.stdout.split("\n", 1)
        found.append(rest)
    return device, found


def main():
    library = environment.prepare("intel", **environment.ENVIRONMENTS["intel"]).parent.parent / "lib" / "libintelocl.so"
    ours = vendors(library)
    theirs = {"CHARL_DEVICE": os.environ.get("CHARL_DEVICE", "cpu")}
    shown = subprocess.run([BIN / "charl", "devices"], env=dict(os.environ, **ours), stdout=subprocess.PIPE, text=True, check=False).stdout
    if RUNTIME not in shown:
        print(f"skipped: {library} offers no device here")
        sys.exit(77)

    operators = [] if LONG else OPERATORS
    device, got = hashes(ours, *operators)
    _, want = hashes(theirs, *operators)
    assert RUNTIME in device, device
    failed = [a for a, b in zip(got, want) if a != b]
    for result in failed:
        print(f"FAILED: other bits than those of PoCL:\n{result}")
    print(f"{len(got)} results of operators, {len(failed)} differ")

    examples = [sys.executable, EXAMPLES]
    long = {"CHARL_TEST_LONG": "1"} if LONG else {}
    trained = subprocess.run([*examples, *([] if LONG else ["digits"])], env=dict(os.environ, **ours, CHARL_BIN_DIR=str(BIN), **long), check=False)
    code = bool(failed) or trained.returncode
    if LONG:
        registered = pathlib.Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors"))
        both = vendors(library, *(path.read_text().strip() for path in registered.glob("pocl*.icd")))
        done = subprocess.run([*examples, "--mixed", "0, 1", *MIXED], env=dict(os.environ, **both, CHARL_BIN_DIR=str(BIN)), check=False)
        code = code or done.returncode
    sys.exit(code)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        try:
            main()
        finally:
            os.chdir("/")
