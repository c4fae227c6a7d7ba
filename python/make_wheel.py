#!/usr/bin/env python3
"""Make the Python wheel of a build: its programs and libraries, and the package python/charl.

    cmake --preset tarball && cmake --build --preset tarball && python3 python/make_wheel.py build/tarball

The wheel of the preset tarball is for any Linux with its C library or a later one (manylinux); that of another
preset is for the machine that made it (linux). The same build gives the same bytes. Needs nothing but the standard
library, cmake and a C compiler, which reads the headers.

Usage: make_wheel.py BUILD [-o FOLDER]      FOLDER: build/dist
"""

import argparse
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
METADATA = """Metadata-Version: 2.1
Name: charl
Version: {version}
Summary: Trains neural networks on OpenCL devices
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

{description}"""
COMMANDS = "[console_scripts]\ncharl = charl._programs:charl\ncharl-train = charl._programs:charl_train\n"


def setting(build, name):
    """What CMake has decided, as cpack reads it; None: nothing."""
    path = build / "CPackConfig.cmake"
    if not path.is_file():
        sys.exit(
            f"make_wheel.py: {build} is not a build of charl: cmake --preset tarball && cmake --build --preset tarball"
        )
    found = re.search(rf'(?m)^set\({name} "(.*)"\)$', path.read_text(encoding="utf-8"))
    return found.group(1) if found else None


def run(*command):
    """A command that must succeed."""
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"make_wheel.py: {' '.join(map(str, command))}:\n{done.stdout[-2000:]}")
    return done.stdout


def contents(build, tree, glibc):
    """The files of the package, by their paths in the wheel: bytes, and whether it is a program."""
    files = {}
    for component in ("programs", "charl", "train", "report"):
        run("cmake", "--install", build, "--prefix", tree, "--strip", "--component", component)
    for path in sorted(tree.glob("bin/*")):
        if path.name in ("charl", "charl-train"):
            files[f"charl/bin/{path.name}"] = path.read_bytes(), True
    lib = next(path.parent for path in tree.glob("lib*/**/libcharl.so.*"))
    if not glibc and lib != tree / "lib":
        sys.exit(
            f"make_wheel.py: libraries are in {lib.relative_to(tree)}; configure with -DCMAKE_INSTALL_LIBDIR=lib"
        )
    for path in sorted(lib.glob("*.so.*")):
        soname = re.search(r"SONAME +(\S+)", run("objdump", "-p", path)).group(1)
        if path.name == soname:  # not the file of the full version, to which it is a link
            files[f"charl/lib/{soname}"] = path.read_bytes(), True
    for path in sorted(lib.glob("charl-*/charl-compile")):
        files[f"charl/lib/{path.parent.name}/{path.name}"] = path.read_bytes(), True
    if glibc:
        run("cmake", f"-DFOLDER={tree}", f"-DGLIBC={glibc}", "-P", SOURCE / "cmake/check_glibc.cmake")
    for path in sorted((SOURCE / "python/charl").glob("*.py")) + [SOURCE / "python/charl/py.typed"]:
        files[f"charl/{path.name}"] = path.read_bytes(), False
    bindings = run(sys.executable, SOURCE / "python/bindings.py", SOURCE / "include", build / "include")
    files["charl/_bindings.py"] = bindings.encode(), False
    licenses = {
        "LICENSE": SOURCE / "LICENSE",
        **{path.name: path for path in tree.glob("share/doc/charl/licenses/*")},
    }
    return files, {name: path.read_bytes() for name, path in licenses.items()}


def write(path, files, info):
    """The archive, with its record. Times are those of the zip format's beginning, so that they do not differ."""
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name, data, executable=False):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for name, (data, executable) in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            add(name, data, executable)
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())


def main():
    """Make the wheel and say where it is."""
    parser = argparse.ArgumentParser(usage="make_wheel.py BUILD [-o FOLDER]")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=SOURCE / "build/dist")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    version, glibc = setting(build, "CPACK_PACKAGE_VERSION"), setting(build, "CPACK_CHARL_GLIBC")
    machine = platform.machine()
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{machine}" if glibc else f"py3-none-linux_{machine}"
    with tempfile.TemporaryDirectory() as tree:
        files, licenses = contents(build, pathlib.Path(tree), glibc)
    info = f"charl-{version}.dist-info"
    description = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
    files[f"{info}/METADATA"] = METADATA.format(version=version, description=description).encode(), False
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: charl\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        False,
    )
    files[f"{info}/entry_points.txt"] = COMMANDS.encode(), False
    for name, data in licenses.items():
        files[f"{info}/licenses/{name}"] = data, False
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"charl-{version}-{tag}.whl"
    write(path, files, info)
    print(path)


main()
