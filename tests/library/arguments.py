#!/usr/bin/env python3
"""Write the calls of tests/library/arguments.c: every function of the public headers with every pointer in turn NULL.

Usage: arguments.py FOLDER-OF-HEADERS > arguments_calls.h

A prototype is read from its header, so a new function is called without anybody adding it here. What a pointer points to comes from the
table OBJECTS, of objects that arguments.c creates; other pointers point to zeros, also in a call without NULL. What must not be called is in
LEFT_OUT, with the reason.
"""
import glob
import os
import re
import sys

LEFT_OUT = {
    "charl_comm_exit": "ends the process",
    "charl_comm_init": "starts MPI",
    "charl_comm_fini": "ends MPI",
    "charl_comm_bind": "binds the process to a core",
    "charl_comm_cpu_limit": "limits the threads of the device",
    "charl_free": "the pointer is the memory",
    "charl_error_set": "variadic, for macros that give everything",
    "charl_error_trace": "for macros that give everything",
    "charl_fail": "variadic; the format is the caller's literal",
}
# Types of which arguments.c has an object, by the name of its variable.
OBJECTS = """device tensor graph var params param optimizer steps dataset loader config checkpoint_reader checkpoint_tensor tokenizer model comm
    data_schema metrics data_parallel reducer allreduce roofline prediction_writer""".split()
# Types whose objects it does not have.
OPAQUE = """run summary eval_report operator_run config_layer layer_build inference safetensors team pinned step_rows""".split()
# Called with NULL alone: what they are given is gone afterwards, or they run every operator.
ENDS = re.compile(r"_(destroy|close|release|fini|break|end|operator_hash)$")


def prototypes(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.h"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
        text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
        while "{" in text:
            text = re.sub(r"\{[^{}]*\}", " ", text)
        for declaration in re.sub(r"CHARL_(BEGIN|END)_DECLS", " ", text).split(";"):
            m = re.match(r"(?!typedef)(?!static)(.*?)\b(charl_\w+)\((.*)\)[^()]*(CHARL_PRINTF\(\d, \d\))?$", " ".join(declaration.split()))
            if m:
                yield m.group(1).strip(), m.group(2), m.group(3)


def split(parameters):
    """The parameters of a list, at the commas outside of parentheses."""
    depth, part, parts = 0, "", []
    for c in parameters:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in parts + [part.strip()] if p != "void"]


def is_pointer(parameter):
    return "*" in parameter or "[" in parameter


def given(parameter, number):
    """An argument that is there. None: arguments.c has no such object."""
    m = re.match(r"(?:const )?charl_(\w+) \*(?!\*|const)", parameter)
    if m and m.group(1) in OBJECTS:
        return m.group(1)
    if m and m.group(1) in OPAQUE:
        return None
    if "(*" in parameter:
        return "NULL"
    if re.match(r"const char \*const \*?\w*(\[|$)|const char \*const \*", parameter):
        return "texts"
    if re.match(r"const char \*\w+$", parameter):
        return '"none"'
    if is_pointer(parameter):
        return "zeros(%d)" % number
    return None


def value(parameter):
    """An argument that is no pointer."""
    kind = re.sub(r"\w+$", "", parameter).strip().replace("const ", "")
    if kind in ("float", "double"):
        return "0.5"
    if kind in ("int", "int64_t", "size_t", "bool", "uint64_t", "unsigned", "uint32_t"):
        return "(%s)count" % kind
    if kind in ("charl_generated", "charl_generated_line", "charl_chat_message", "charl_log_fn", "charl_comm_on_death", "charl_config_layer_reader"):
        return "NULL"
    return "(%s){0}" % kind


def main():
    names = []
    for result, name, parameters in prototypes(sys.argv[1]):
        if name in LEFT_OUT:
            continue
        parameters = split(parameters)
        pointers = [i for i, p in enumerate(parameters) if is_pointer(p)]
        there = {i: given(parameters[i], i) for i in pointers}
        calls = [pointers]  # which are NULL: all, then each, then none
        if not ENDS.search(name) and None not in there.values():
            calls += [[i] for i in pointers] if len(pointers) > 1 else []
            calls.append([])
        print("static void call_%s(void)\n{" % name)
        for null in calls:
            arguments = []
            for i, p in enumerate(parameters):
                if i in null:
                    arguments.append("NULL")
                else:
                    arguments.append(there[i] if i in there else value(p))
            what = ", ".join(re.search(r"(\w+)(\[[^]]*\])?$", parameters[i]).group(1) if "(*" not in parameters[i] else "callback" for i in null)
            call = "%s(%s)" % (name, ", ".join(arguments))
            if result.startswith("charl_status"):
                print('    STATUS("%s", "%s", %s);' % (name, what, call))
            else:
                print('    CALL("%s", "%s", %s);' % (name, what, call))
        print("}")
        names.append(name)
    print("static const struct {\n    const char *name;\n    void (*call)(void);\n} calls[] = {")
    for name in names:
        print('    {"%s", call_%s},' % (name, name))
    print("};")


main()
