"""Packages from PyPI for a test: a virtual environment that is kept beside the kernels that the tests compile."""
import os
import pathlib
import subprocess
import sys

BIN = pathlib.Path(os.environ.get("CHARL_BIN_DIR", ""))
CACHE = os.environ.get("CHARL_CACHE_DIR")
HOME = pathlib.Path(CACHE).parent if CACHE else BIN.parent.parent


def enter(name, packages, system=False, alone=()):
    """Go on as the Python of the environment `name`, made first where there is none. Exit code 77: it cannot be made.
    system: the packages of the distribution are seen too. alone: packages without those that they ask for, such as a
    PyTorch newer than the distribution's."""
    venv = HOME / f"{name}{sys.version_info.major}.{sys.version_info.minor}"
    if pathlib.Path(sys.prefix) == venv.absolute():
        return
    complete = venv / "complete"
    if not complete.exists():
        install = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--retries", "1", "--disable-pip-version-check"]
        for command in ([sys.executable, "-m", "venv", "--clear",
                         *(["--system-site-packages"] if system else []), venv],
                        [*install, *packages],
                        *([[*install, "--no-deps", *alone]] if alone else [])):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                print(f"skipped: {' '.join(map(str, command))}: {done.stdout[-400:]}")
                sys.exit(77)
        complete.touch()
    os.execv(venv / "bin" / "python", [venv / "bin" / "python", *sys.argv])
