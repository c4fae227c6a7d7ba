"""Lists kernels of kernels/ with more than MOST parameters, whichever of them a specialisation has; the numbers of a kernel go into a struct that its
host shares, *_args.h. And holds the number of conditions (#if and its kin) in kernels/ at CONDITIONS or fewer: what is constant in a launch is an
`if` in a function, where every form of it compiles.

Usage: parameters.py ROOT; prints FILE: what is wrong.
"""
import pathlib
import re
import sys

from local_arrays import arguments
from macros import definitions, without_comments

MOST = 16
CONDITIONS = 386


def longest(text):
    """The longest body of every macro."""
    bodies = {}
    for _, name, _, body in definitions(text):
        bodies[name] = max(bodies.get(name, ""), body, key=lambda b: b.count(","))
    return bodies


def expanded(parameters, macros):
    """Parameters with the macros among them in full, all branches of an #if included."""
    parameters = re.sub(r"^[ \t]*#.*$", "", parameters, flags=re.M)
    for _ in range(4):
        parameters = re.sub(r"\b([A-Z]\w*)(\([^()]*\))?", lambda m: macros.get(m.group(1), m.group()), parameters)
    return parameters


def main(root):
    kernels = pathlib.Path(root) / "kernels"
    failed = False
    prelude = "\n".join(p.read_text() for p in (kernels / "prelude").glob("*.clh"))
    for f in sorted(kernels.rglob("*.cl")):
        own = f.read_text()
        parts = [(kernels / g).read_text() for g in re.findall(r'^#include "([^"]+)"', own, re.M)]
        text = without_comments("\n".join([prelude] + parts + [own]))
        macros = longest(text)
        for m in re.finditer(r"\bkernel\s+(?:__attribute__\(\(.*?\)\)\)?\s*|[A-Z_]+\s+)?void\s+(\w+)\s*\(", text, re.S):
            end = text.index("\n{", m.end())
            count = len([a for a in arguments(expanded(text[m.end() : end], macros)) if a])
            if count > MOST:
                failed = True
                print(f"{f.relative_to(root)}: {m.group(1)} has {count} parameters; a kernel has at most {MOST}, its numbers in a struct")
    conditions = sum(len(re.findall(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b", f.read_text(), re.M)) for f in kernels.rglob("*.*"))
    if conditions > CONDITIONS:
        failed = True
        print(f"kernels/ has {conditions} conditions (#if, #ifdef, #ifndef, #elif), at most {CONDITIONS} are allowed: write `if (CONSTANT)` in a function")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
