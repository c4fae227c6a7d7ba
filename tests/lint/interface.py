#!/usr/bin/env python3
"""The form of the public headers, include/charl, and of the options that are passed through them.

- No line is longer than 120 columns, and no declaration is broken because a comment follows it: the comment stands above.
- What is one of an enumeration has its type: no int whose comment names it.
- Options begin with struct_size, and whoever fills them sets it.
- A callback gets a pointer of the program, `void *ctx`, first, and what takes the callback has that pointer too. Functions of a registered row get
  its settings, or an object that knows the row.
- Functions have the names and the order of parameters that CONTRIBUTING.md describes: NOUN_VERB after the object, get_, charl_register_NOUN, ctx
  behind its callback.

Usage: interface.py ROOT
"""
import glob
import os
import re
import sys

WIDTH = 120

# The noun of a type, where it is not the type's own name.
NOUNS = {"charl_checkpoint_reader": "charl_checkpoint"}
# First parameters that say where, or from what, something is done: the noun is what is done or made.
PLACES = {"charl_device", "charl_config", "charl_graph", "charl_comm"}
# Properties without get_: of a communicator, as in MPI.
PROPERTIES = {"charl_comm_" + name for name in
              "rank size local_rank local_size node node_count host pid place cpu_share".split()}
# Verbs after which a function returns something else than a status: they make or find it.
ANSWERS = r"(get|is|has|can|takes|find|retain|share|build)(_|$)"


def functions(text):
    """(line, result, name, parameters) of the functions that a header declares."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group(0))

    text = re.sub(r"/\*.*?\*/|^#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.S | re.M)
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", blank, text)
    for m in re.finditer(r"(?:^|;)([\w\s*]+?)\b(charl_\w+)\s*\(((?:[^()]|\([^()]*\))*)\)", text):
        if "typedef" not in m.group(1):
            parameters = [" ".join(p.split()) for p in re.split(r",(?![^(]*\))", m.group(3))]
            yield text.count("\n", 0, m.start(2)) + 1, " ".join(m.group(1).split()), m.group(2), parameters


def check_names(path, text, opaque, callbacks, complain):
    for line, result, name, parameters in functions(text):
        m = re.match(r"(const )?(charl_\w+) \*(?!\*)", parameters[0])
        kind = m.group(2) if m and m.group(2) in opaque else None
        noun = NOUNS.get(kind, kind)
        made = re.match(r"(charl_\w+) \*\*out$", parameters[-1])
        if kind and not name.startswith(noun + "_") and kind not in PLACES and not (made and name.startswith(made.group(1) + "_")):
            complain(path, line, "%s: its object is a %s, so it is called %s_VERB" % (name, kind, noun))
        if (kind and m.group(1) and name.startswith(noun + "_") and name not in PROPERTIES and result not in ("charl_status", "void")
                and not re.match(ANSWERS, name[len(noun) + 1:]) and not any(name.startswith(o + "_") and len(o) > len(noun) for o in opaque)):
            complain(path, line, "%s gives a property: %s_get_%s, or is_ and has_" % (name, noun, name[len(noun) + 1:]))
        if "register" in name and not name.startswith("charl_register_"):
            complain(path, line, "%s: a function that registers is called charl_register_NOUN" % name)
        for i, parameter in enumerate(parameters):
            callback = parameters[i - 1] if i > 0 else ""
            before = re.match(r"(?:const )?(charl_\w+) ", callback)
            if re.search(r"\bctx$", parameter) and not ("(*" in callback or (before and before.group(1) in callbacks)):
                complain(path, line, "%s: ctx stands behind the callback that gets it" % name)
            if re.search(r" \*\*out$", parameter) and i != len(parameters) - 1 and parameters[i + 1] != "void **host":
                complain(path, line, "%s: what it makes, out, is its last parameter" % name)


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


# Rows that a program registers: their functions get the row's settings, or an object that knows the row.
ROWS = {"charl_row", "charl_importer", "charl_layer_type", "charl_model_type", "charl_operator", "charl_optimizer_type"}


def check_callbacks(path, text, callbacks, complain):
    """Every pointer to a function, and every member that is one by its type."""
    plain = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    for m in re.finditer(r"\(\*(\w*)\)\(([^()]*)", plain):
        before = plain[:m.start()]
        row = re.search(r"typedef struct (\w+) \{(?:(?!\n\}).)*\Z", before, re.S)
        if not (row and row.group(1) in ROWS) and not m.group(2).startswith("void *ctx"):
            complain(path, before.count("\n") + 1, "the callback %s lacks void *ctx as its first parameter" % m.group(1))
    for m in re.finditer(r"typedef struct (\w+) \{(.*?)\n\}", plain, re.S):
        members = m.group(2)
        for callback in re.findall(r"\(\*(\w+)\)\(|^ +(?:%s) (\w+);" % "|".join(callbacks), members, re.M) if m.group(1) not in ROWS else []:
            name = callback[0] or callback[1]
            if not re.search(r"void \*(%s_)?ctx;" % name, members):
                complain(path, plain.count("\n", 0, m.start()) + 1, "%s has no pointer for its callback %s" % (m.group(1), name))


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
    for path in sorted(glob.glob("include/charl/*.h") + glob.glob("include/charl/*.h.in")):
        with open(path, encoding="utf-8") as f:
            texts[path] = f.read()
    enums = set(re.findall(r"^typedef enum (\w+)", "\n".join(texts.values()), re.M))
    whole = "\n".join(texts.values())
    opaque = set(re.findall(r"^typedef struct (charl_\w+) \1;", whole, re.M))
    callbacks = set(re.findall(r"^typedef [\w *]+\(\*(charl_\w+)\)", whole, re.M))
    for path, text in texts.items():
        check(path, text, enums, complain)
        check_names(path, text, opaque, callbacks, complain)
        check_callbacks(path, text, callbacks, complain)
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
