#!/usr/bin/env python3
"""The form of the public headers, include/charl, and of the options that are passed through them.

- No line is longer than 120 columns, and no declaration is broken because a comment follows it: the comment stands above.
- What is one of an enumeration has its type: no int whose comment names it.
- Options begin with struct_size, and whoever fills them sets it.

Usage: interface.py ROOT
"""
import glob
import os
import re
import sys

WIDTH = 120


def check(path, text, enums, complain):
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > WIDTH:
            complain(path, number, "%d columns; at most %d" % (len(line), WIDTH))
        if re.match(r"\s+(const )?\w+( \*)?$", line) and number < len(lines) and re.match(r"\s+\**\w+(\[\w*\])?; */\*", lines[number]):
            complain(path, number, "a comment breaks the declaration; put it above")
        m = re.search(r"\bint \*?(\w+);? */\*.*?\b(charl_\w+)", line)
        if m and m.group(2) in enums:
            complain(path, number, "%s is a %s and declared as int" % (m.group(1), m.group(2)))
    for m in re.finditer(r"/\*\*((?:[^*]|\*(?!/))*)\*/\s*([^;/]*);", text):
        for name, kind in re.findall(r"\b(\w+): (?:a |one of )?(charl_\w+)", m.group(1)):
            if kind in enums and re.search(r"\bint \*?%s\b" % name, m.group(2)):
                complain(path, text.count("\n", 0, m.start(2)) + 1, "%s is a %s and declared as int" % (name, kind))


def check_options(path, text, options, complain):
    def at(place):
        return text.count("\n", 0, place) + 1

    for m in re.finditer(r"\((?:const )?(%s)(\[\d*\])?\) ?\{(?!\s*(?:\.struct_size = )?sizeof)" % options, text):
        complain(path, at(m.start()), "%s begins with its size: {sizeof(%s), ...}" % (m.group(1), m.group(1)))
    for m in re.finditer(r"\b(%s) (?!\*)([^;]*?);" % options, text):
        for d in re.finditer(r"(?:^|,\s*)(\w+) = \{(?!\s*(?:\.struct_size = )?sizeof)", m.group(2)):
            complain(path, at(m.start(2) + d.start(1)), "%s begins with its size: %s = {sizeof %s, ...}" % (m.group(1), d.group(1), d.group(1)))


def main():
    failed = []

    def complain(path, number, what):
        failed.append(path)
        print("%s:%d: %s" % (path, number, what))

    os.chdir(sys.argv[1])
    texts = {}
    for path in sorted(glob.glob("include/charl/*.h")):
        with open(path, encoding="utf-8") as f:
            texts[path] = f.read()
    enums = set(re.findall(r"^typedef enum (\w+)", "\n".join(texts.values()), re.M))
    for path, text in texts.items():
        check(path, text, enums, complain)
    options = []
    for path, text in texts.items():
        for m in re.finditer(r"typedef struct (\w+_(?:options|request)) \{\s*([^;]*);", text):
            options.append(m.group(1))
            if m.group(2) != "size_t struct_size":
                complain(path, text.count("\n", 0, m.start()) + 1, "%s does not begin with size_t struct_size" % m.group(1))
    for pattern in ("src/**/*.c", "bench/*.c", "examples/*.c", "tests/**/*.c"):
        for path in sorted(glob.glob(pattern, recursive=True)) if options else []:
            with open(path, encoding="utf-8") as f:
                check_options(path, f.read(), "|".join(options), complain)
    sys.exit(1 if failed else 0)


main()
