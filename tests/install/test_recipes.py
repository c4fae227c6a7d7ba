#!/usr/bin/python3
"""The recipes of packaging/recipes.py have the form that their systems read, the tarball's version and checksum, and
every library that CMake looks for. If it failed, a release would come with a recipe that no one can use, or that
lacks a dependency.
"""

import ast
import hashlib
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

if importlib.util.find_spec("yaml") is None:
    print("skipped: python3 has no yaml")
    sys.exit(77)

import yaml  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[2]
URL = "https://example.org/releases"


def spack(text, version, checksum):
    """A class with directives; the names of what it depends on."""
    body = next(n for n in ast.parse(text).body if isinstance(n, ast.ClassDef))
    assert body.name == "Charl" and body.bases[0].id == "CMakePackage"
    calls = [n.value for n in body.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    given = next(c for c in calls if c.func.id == "version")
    assert given.args[0].value == version and given.keywords[0].value.value == checksum
    return [re.match(r"[a-z0-9-]+", c.args[0].value).group(0) for c in calls if c.func.id == "depends_on"]


def conda(text, version, checksum):
    """YAML, once the functions that conda-build expands are texts."""
    recipe = yaml.safe_load(text)
    assert recipe["package"] == {"name": "charl", "version": version}
    assert recipe["source"] == {"url": f"{URL}/charl-{version}.tar.gz", "sha256": checksum}
    assert any("-DCHARL_TESTS=OFF" in line for line in recipe["build"]["script"])
    return [n.split()[0] for part in ("build", "host") for n in recipe["requirements"][part]]


def easybuild(text, version, checksum):
    """Assignments."""
    values = {}
    for statement in ast.parse(text).body:
        assert isinstance(statement, ast.Assign), ast.dump(statement)
        try:
            values[statement.targets[0].id] = ast.literal_eval(statement.value)
        except ValueError:
            pass  # EasyBuild's own constants
    assert values["name"] == "charl" and values["version"] == version and values["checksums"] == [checksum]
    assert values["toolchain"] == {"name": "gompi", "version": "2024a"}
    return [name for key in ("builddependencies", "dependencies") for name, _ in values[key]]


def nix(path, text, version, checksum):
    """A function whose arguments are what it uses."""
    assert f'version = "{version}"' in text and f'sha256 = "{checksum}"' in text
    for opening, closing in ("{}", "[]", "()"):
        assert text.count(opening) == text.count(closing)
    used = [
        n for names in re.findall(r"(?:nativeBuildInputs|buildInputs) = \[ (.*) \];", text) for n in names.split()
    ]
    arguments = re.match(r"\{ (.*) \}:", text).group(1).split(", ")
    assert sorted(arguments) == sorted({"lib", "stdenv", "fetchurl", *used})
    if shutil.which("nix-instantiate"):
        subprocess.run(["nix-instantiate", "--parse", path], check=True, stdout=subprocess.DEVNULL)
    else:
        print("skipped case: Nix's parser: there is no nix-instantiate")
    return used


def main(folder):
    """Make the recipes of a tarball and look at them, and at the table."""
    version = re.search(
        r"^project\(charl VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.M
    ).group(1)
    tarball = folder / f"charl-{version}.tar.gz"
    tarball.write_bytes(b"sources")
    checksum = hashlib.sha256(b"sources").hexdigest()
    program = [sys.executable, ROOT / "packaging/recipes.py"]
    subprocess.run(
        [*program, tarball, "--url", URL + "/", "-o", folder / "recipes"], check=True, stdout=subprocess.DEVNULL
    )
    texts = {path.name: path.read_text(encoding="utf-8") for path in (folder / "recipes").iterdir()}
    eb = f"charl-{version}-gompi-2024a.eb"
    assert set(texts) == {"package.py", "meta.yaml", "default.nix", eb}, list(texts)
    assert not [name for name, text in texts.items() if re.search(r"@[A-Z0-9]+@", text)]
    names = [
        spack(texts["package.py"], version, checksum),
        conda(texts["meta.yaml"], version, checksum),
        nix(folder / "recipes/default.nix", texts["default.nix"], version, checksum),
        easybuild(texts[eb], version, checksum),
    ]

    rows = [
        [field.strip() for field in line.split("|")]
        for line in (ROOT / "packaging/dependencies.txt").read_text(encoding="utf-8").splitlines()
        if line and line[0] != "#"
    ]
    for row in rows:
        for system, name in enumerate(row[2:]):
            assert (
                name == "-" or re.match(r"[A-Za-z0-9-]+", name).group(0) in names[system]
            ), f"{name} is not in its recipe"
    cmake = (ROOT / "cmake/CharlDependencies.cmake").read_text(encoding="utf-8")
    wanted = set(re.findall(r"(?:find_package|pkg_check_modules)\((\w+)", cmake)) - {"Threads", "PkgConfig"}
    assert wanted == {
        row[0] for row in rows if row[1] == "library"
    }, "packaging/dependencies.txt and cmake/CharlDependencies.cmake differ"
    least = re.search(
        r"cmake_minimum_required\(VERSION ([\d.]+)\)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    ).group(1)
    jansson = re.search(r"jansson>=([\d.]+)", cmake).group(1)
    assert f"cmake@{least}:" in texts["package.py"] and f"cmake >={least}" in texts["meta.yaml"]
    assert f"jansson@{jansson}:" in texts["package.py"] and f"jansson >={jansson}" in texts["meta.yaml"]

    other = subprocess.run(
        [*program, folder / "absent.tar.gz", "--url", URL, "-o", folder],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (
        other.returncode == 1 and "is not a file charl-VERSION.tar.gz: tools/release.sh makes it" in other.stderr
    ), other
    print("passed")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary))
