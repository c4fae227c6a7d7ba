#!/usr/bin/env python3
"""Write the recipes of charl for Spack, conda-forge, Nix and EasyBuild, for a source tarball (tools/release.sh).

    package.py  meta.yaml  default.nix  charl-VERSION-gompi-2024a.eb

The version and the checksum are those of the tarball, the dependencies come from dependencies.txt beside this file,
and the rest from the templates package.py.in, meta.yaml.in, default.nix.in and charl.eb.in.

Usage: recipes.py TARBALL --url FOLDER-URL -o FOLDER      the tarball is published as FOLDER-URL/charl-VERSION.tar.gz
"""

import argparse
import hashlib
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SYSTEMS = ("Spack", "conda-forge", "Nix", "EasyBuild")


def dependencies():
    """Of each system: lists of names with what follows them, by kind."""
    found = {system: {"build": [], "library": []} for system in SYSTEMS}
    for line in (HERE / "dependencies.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 2 + len(SYSTEMS) or fields[1] not in ("build", "library"):
            sys.exit(f"recipes.py: dependencies.txt: {line}")
        for system, name in zip(SYSTEMS, fields[2:]):
            if name != "-":
                found[system][fields[1]].append(name)
    return found


def spack(name, kind):
    """A line of a package of Spack."""
    package, _, version = name.partition(" ")
    spec = f"{package}@{version}:" if version else package
    return f'    depends_on("{spec}"' + (', type="build")' if kind == "build" else ")")


def easybuild(name):
    """A line of a list of EasyBuild."""
    package, version = name.split(" ")
    return f"    ('{package}', '{version}'),"


def recipes(version, checksum, url):
    """Text by file name."""
    of = dependencies()
    common = {
        "VERSION": version,
        "SHA256": checksum,
        "URL": url,
        "FOLDER": url,
        "SOURCE": f"{url}/charl-{version}.tar.gz",
    }
    nix = of["Nix"]["build"] + of["Nix"]["library"]
    values = {
        "package.py": {"DEPENDENCIES": "\n".join(spack(n, kind) for kind in of["Spack"] for n in of["Spack"][kind])},
        "meta.yaml": {
            "BUILD": "\n".join(f"    - {n}" for n in of["conda-forge"]["build"]),
            "LIBRARIES": "\n".join(f"    - {n}" for n in of["conda-forge"]["library"]),
        },
        "default.nix": {
            "ARGUMENTS": ", ".join(nix),
            "BUILD": " ".join(of["Nix"]["build"]),
            "LIBRARIES": " ".join(of["Nix"]["library"]),
        },
        "charl.eb": {
            "BUILD": "\n".join(map(easybuild, of["EasyBuild"]["build"])),
            "LIBRARIES": "\n".join(map(easybuild, of["EasyBuild"]["library"])),
        },
    }
    made = {}
    for name, own in values.items():
        template = (HERE / f"{name}.in").read_text(encoding="utf-8")
        text = re.sub(r"@([A-Z0-9]+)@", lambda m, own=own: {**common, **own}[m.group(1)], template)
        made[f"charl-{version}-gompi-2024a.eb" if name == "charl.eb" else name] = text
    return made


def main():
    """Write the files and say where they are."""
    parser = argparse.ArgumentParser(usage="recipes.py TARBALL --url FOLDER-URL -o FOLDER")
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("--url", required=True)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    found = re.match(r"charl-(\d+\.\d+\.\d+)\.tar\.gz$", arguments.tarball.name)
    if not found or not arguments.tarball.is_file():
        sys.exit(f"recipes.py: {arguments.tarball} is not a file charl-VERSION.tar.gz: tools/release.sh makes it")
    checksum = hashlib.sha256(arguments.tarball.read_bytes()).hexdigest()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, text in recipes(found.group(1), checksum, arguments.url.rstrip("/")).items():
        (arguments.output / name).write_text(text, encoding="utf-8")
        print(arguments.output / name)


main()
