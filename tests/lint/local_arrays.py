"""Lists functions of kernels/ that are given a whole array of local memory and do not say its size. clang compares sizes where the
parameter is `local T x[static N]` (-Warray-bounds) and types where it points to a struct or an array, but nothing where it is `local T *x`.
Not of kernels/nvidia, where the host says how large arrays are.

Usage: local_arrays.py ROOT; prints FILE: what is wrong.
"""
import pathlib
import re
import sys

from macros import without_comments

FUNCTION = re.compile(r"\b(\w+)\(([^;{}]*)\)\s*\n\{")
DECLARED = r"\w+(?:\[[^\];]*\])*(?:\s*__attribute__\(\([^;]*?\)\)\))?"
LOCAL_ARRAYS = re.compile(rf"\blocal\s+(\w+)\s+({DECLARED}(?:,\s*{DECLARED})*)\s*;")
POINTER = re.compile(r"\blocal\s+(?:const\s+)?\w+\s*\*\s*(?:const\s+)?(\w+)$")


def arguments(text):
    """The arguments of a call; text begins behind its parenthesis."""
    found, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        if depth == 0 and c in ",)":
            found.append(text[begin:i].strip())
            begin = i + 1
            if c == ")":
                return found
        depth += (c in "([{") - (c in ")]}")
    return found


def main(root):
    kernels = pathlib.Path(root) / "kernels"
    found = {}
    for f in sorted(set(kernels.rglob("*.cl")) - set(kernels.glob("nvidia/**/*"))):
        own = f.read_text()
        parts = [own] + [(kernels / g).read_text() for g in re.findall(r'^#include "([^"]+)"', own, re.M)]
        text = without_comments("\n".join(parts))
        arrays = {a for m in LOCAL_ARRAYS.finditer(text) for a in re.findall(r"(\w+)\[", m.group(2))}
        for function, parameters in FUNCTION.findall(text):
            for k, p in enumerate(arguments(parameters + ")")):
                pointer = POINTER.search(p)
                for call in re.finditer(rf"\b{function}\(", text) if pointer else []:
                    given = arguments(text[call.end() :])
                    if k < len(given) and given[k] in arrays:
                        found[f"{f.relative_to(root)}: {function} is given all of {given[k]}: declare {pointer.group(1)}[static SIZE]"] = True
    print("\n".join(found))
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
