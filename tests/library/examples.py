#!/usr/bin/env python3
"""The examples in the comments that open the public headers compile without a warning, as C11 and as C++20.

An example is a block of lines that stand six blanks behind the asterisk. It becomes the body of a function, whose parameters are what the
example uses without declaring it, by the table HEADERS. check() is described in charl/charl.h.

Usage: examples.py CC CXX INCLUDE-FOLDER...   (the first folder has the headers)
"""
import os
import re
import shutil
import subprocess
import sys

GRAPH = "charl_graph *g"
# The headers that must have an example: the parameters of each of its examples, in order.
HEADERS = {
    "checkpoint": [""],
    "comm": ["int argc, char **argv"],
    "config": [""],
    "data_parallel": [
        "charl_comm *comm, charl_device *dev, charl_slices mine, charl_data_parallel *dp, charl_graph *g, charl_params *params,"
        " charl_optimizer_config adamw, charl_optimizer *optimizer, charl_var *(*build)(charl_graph *),"
        " void (*write_rows)(charl_graph *, const charl_slices *)",
        "charl_comm *comm, charl_device *dev, charl_slices mine, charl_data_parallel *dp, charl_graph **g, int n,"
        " charl_optimizer *optimizer, void (*write_rows)(charl_graph *, const charl_slices *)",
        "charl_slices mine, charl_data_parallel *dp, charl_graph *g, charl_optimizer *optimizer,"
        " void (*write_rows)(charl_graph *, const charl_slices *)",
        "charl_data_parallel *dp, charl_graph *g, charl_graph *(*build)(const charl_slices *)",
    ],
    "dataset": [""],
    "device": [""],
    "export": ["charl_model *model, charl_params *params, charl_shape shape"],
    "generate": [""],
    "graph": ["charl_device *dev"],
    "inference": ["int64_t requests, const float **rows, float **outputs"],
    "learner": [
        "charl_world world, charl_var *(*build)(void *, charl_graph *, int64_t), const float *x, const float *y"
    ],
    "loader": ["charl_dataset *data, charl_slices mine, charl_tensor *x, charl_tensor *y"],
    "metric": ["charl_config *config, charl_train_options options"],
    "nn": [GRAPH + ", charl_params *params, charl_var *x"],
    "ops": [GRAPH + ", charl_var *x, charl_var *w1, charl_var *b1, charl_var *w2, charl_var *b2, charl_var *label"],
    "optim": [GRAPH + ", charl_params *params"],
    "params": [GRAPH + ", charl_params *params, charl_model *model, charl_var *x, charl_var *y"],
    "tensor": ["charl_device *dev"],
    "train": ["charl_comm *comm"],
    "training": ["charl_params *params, charl_optimizer *optimizer, charl_data_parallel *dp, void (*take_step)(int64_t)"],
    "world": ["int argc, char **argv"],
}
LANGUAGES = (("c", "-std=c11"), ("c++", "-std=c++20"))
# g++ warns of members that designated initializers leave out, gcc does not.
OWN = {"c": [], "c++": ["-Wno-missing-field-initializers"]}
BEFORE = """#include <charl/charl.h>
#include <stdio.h>
#include <stdlib.h>
void check(charl_status st);
"""


def examples_of(path):
    """(line, text) of each example in the comment that opens the header."""
    with open(path, encoding="utf-8") as f:
        comment = f.read().split("*/", 1)[0]
    found = []
    for m in re.finditer(r"(?:^ \*      .*\n(?:^ \*\n(?=^ \*      ))?)+", comment, re.M):
        found.append((comment.count("\n", 0, m.start()) + 1, re.sub(r"^ \*", "", m.group(0), flags=re.M)))
    return found


def main():
    compilers, folders = dict(zip(("c", "c++"), sys.argv[1:3])), sys.argv[3:]
    failed = 0
    source = BEFORE
    for name, parameters in sorted(HEADERS.items()):
        path = os.path.join(folders[0], "charl", name + ".h")
        found = examples_of(path)
        if len(found) != len(parameters):
            print("%s: %d examples in the comment that opens it, expected %d" % (path, len(found), len(parameters)))
            failed = 1
            continue
        for i, (line, text) in enumerate(found):
            function = "%s_%d(%s)" % (name, i, parameters[i] or "void")
            source += "void %s;\nvoid %s\n{\n#line %d \"%s\"\n%s}\n" % (function, function, line, path, text)
    skipped = 0
    for language, standard in LANGUAGES:
        if not shutil.which(compilers[language]):
            print("no compiler of %s: %s" % (language, compilers[language]))
            skipped = 77
            continue
        command = [compilers[language], standard, "-Wall", "-Wextra", "-pedantic", "-Werror", *OWN[language], "-fsyntax-only", "-x", language]
        command += ["-I" + folder for folder in folders] + ["-"]
        run = subprocess.run(command, input=source, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if run.returncode:
            print("as %s:\n%s" % (language, run.stdout))
            failed = 1
    return failed or skipped


if __name__ == "__main__":
    sys.exit(main())
