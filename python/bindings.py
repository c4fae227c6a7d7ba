#!/usr/bin/env python3
"""Print what the Python package needs to know of the C interface: the functions of FUNCTIONS, with the structs that
they take and give, as declarations for ctypes. They are read from the headers, so that nothing is written twice;
make_wheel.py writes them to charl/_bindings.py.

Usage: bindings.py HEADERS... > charl/_bindings.py      folders that hold charl/*.h: include, and that of
charl/version.h
"""

import re
import shutil
import subprocess
import sys

FUNCTIONS = """
    charl_version charl_free charl_status_name charl_error_message charl_dtype_name charl_dtype_size charl_split_name
    charl_dataset_kind_name charl_config_load charl_config_destroy charl_config_get_text charl_run_checkpoint
    charl_checkpoint_open charl_checkpoint_close charl_checkpoint_get_info charl_checkpoint_get_tensor
    charl_checkpoint_find charl_checkpoint_read charl_dataset_open charl_dataset_close charl_dataset_get_info
    charl_dataset_read charl_import charl_inference_open charl_inference_close charl_inference_get_info
    charl_inference_run charl_inference_answer charl_inference_get_answer_count
""".split()

SIMPLE = {
    "void": "None",
    "int": "c_int",
    "_Bool": "c_bool",
    "char": "c_char",
    "float": "c_float",
    "double": "c_double",
    "size_t": "c_size_t",
    **{f"{u}int{bits}_t": f"c_{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
}


def preprocess(folders):
    """The declarations of all headers, without macros, comments and attributes."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        sys.exit("bindings.py: there is no C compiler, which reads the headers")
    command = [compiler, "-E", "-P", "-x", "c", "-std=c11", "-"]
    for folder in folders:
        command += ["-I", folder]
    text = subprocess.run(
        command, input="#include <charl/charl.h>\n", stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    text = re.sub(r"(?m)^#.*$|_Pragma\([^)]*\)", " ", text)
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\b__extension__\b|\b__restrict\b", " ", text)
    return " ".join(text.split())


class Headers:
    """Enums, structs and functions by name."""

    def __init__(self, folders):
        text = preprocess(folders)
        self.enums, self.constants = set(), {}
        for body, name in re.findall(r"enum \w* ?\{([^{}]*)\} ?(\w*);", text):
            self.enums.add(name)
            value = -1
            for item in filter(None, (i.strip() for i in body.split(","))):
                word, _, expression = (part.strip() for part in item.partition("="))
                try:
                    value = (
                        eval(expression, {"__builtins__": {}}, self.constants) if expression else value + 1
                    )  # pylint: disable=eval-used
                    self.constants[word] = value
                except (NameError, SyntaxError):
                    pass  # of the system's headers
        self.structs = dict(re.findall(r"typedef struct (charl_\w+) \{([^{}]*)\} \1;", text))
        self.callbacks = {
            name: (result.strip(), parameters)
            for result, name, parameters in re.findall(r"typedef ([\w ]+\*?) ?\(\*(charl_\w+)\)\(([^()]*)\);", text)
        }
        while "{" in text:
            text = re.sub(r"\{[^{}]*\}", " ", text)
        self.functions = {}
        for declaration in text.split(";"):
            found = re.match(
                r'(?:extern "C" )?((?:const )?\w+ \**) ?(charl_[a-z0-9_]+) ?\((.*)\)$', " ".join(declaration.split())
            )
            if found:
                self.functions[found.group(2)] = (found.group(1), found.group(3))

    def type(self, text, needed):
        """ctypes' name of a C type. Structs that it is made of are added to `needed`."""
        words = text.replace("*", " * ").split()
        stars, base = words.count("*"), [w for w in words if w not in ("*", "const", "struct")]
        if len(base) != 1:
            sys.exit(f"bindings.py: the type '{text}' is not understood")
        name = base[0]
        if name == "char" and stars == 1:
            return "c_char_p" if words[0] == "const" else "c_void_p"  # the caller frees what is not const
        if name == "char" and stars == 2:
            return "POINTER(c_char_p)" if words[0] == "const" else "POINTER(c_void_p)"
        if stars == 2:
            return "POINTER(c_void_p)"
        if name in self.enums and stars == 0:
            return "c_int"
        if name in self.callbacks and stars == 0:
            return self.callback(*self.callbacks[name], needed)
        if name in self.structs and stars < 2:
            if name not in needed:
                needed[name] = None  # its members may point to it
                needed[name] = [self.member(m, needed) for m in self.members(name)]
            return f"POINTER({name})" if stars else name
        if stars == 1:
            return "c_void_p"
        if stars == 0 and name in SIMPLE:
            return SIMPLE[name]
        return sys.exit(f"bindings.py: the type '{text}' is not understood")

    def callback(self, result, parameters, needed):
        """ctypes' type of a function pointer."""
        types = [self.type(t, needed) for t in [result, *self.parameters(parameters)]]
        return f"CFUNCTYPE({', '.join(types)})"

    @staticmethod
    def parameters(text):
        """The types of a list of parameters."""
        if "(" in text:
            sys.exit(f"bindings.py: a function in the parameters '{text}' is not understood")
        return [
            re.sub(r"(?<=[ *])\w+(\[[^]]*\])?$", lambda m: "*" if m.group(1) else "", p.strip())
            for p in text.split(",")
            if p.strip() != "void"
        ]

    def members(self, struct):
        """Members of a struct, one declaration each."""
        for declaration in filter(None, (d.strip() for d in self.structs[struct].split(";"))):
            if "(" in declaration:
                yield declaration
                continue
            first, *others = (part.strip() for part in declaration.split(","))
            base = re.match(r"((?:const )?(?:struct )?\w+) ", first).group(1)
            yield first
            yield from (f"{base} {other}" for other in others)

    def member(self, declaration, needed):
        """Name and ctypes' type."""
        pointer = re.match(r"([\w ]+?\*?) ?\(\*(\w+)\)\((.*)\)$", declaration)
        if pointer:
            return pointer.group(2), self.callback(pointer.group(1), pointer.group(3), needed)
        found = re.match(r"(.*?)(\w+)((?:\[[^]]*\])*)$", declaration)
        kind = self.type(found.group(1), needed)
        for extent in re.findall(r"\[([^]]*)\]", found.group(3)):
            kind = f"{kind} * {eval(extent, {'__builtins__': {}}, self.constants)}"  # pylint: disable=eval-used
        return found.group(2), kind


def main():
    """Write the module."""
    if len(sys.argv) < 2:
        sys.exit(__doc__.rsplit("\n\n", 1)[1].strip())
    headers = Headers(sys.argv[1:])
    functions, structs = {}, {}
    for name in FUNCTIONS:
        if name not in headers.functions:
            sys.exit(f"bindings.py: no header declares {name}")
        result, parameters = headers.functions[name]
        functions[name] = headers.type(result, structs), [
            headers.type(p, structs) for p in headers.parameters(parameters)
        ]
    print('"""The C interface, as charl\'s headers declare it. Made by python/bindings.py."""')
    print("# pylint: disable=invalid-name,too-few-public-methods,missing-class-docstring,wildcard-import")
    print("from ctypes import *\n")
    for name in structs:
        print(f"\nclass {name}(Structure):\n    pass\n")
    placed = []

    def place(name):  # a struct after those that are part of it
        if name not in placed:
            for _, kind in structs[name]:
                part = kind.split(" ")[0]
                if part in structs:
                    place(part)
            placed.append(name)

    for name in structs:
        place(name)
    for name in placed:
        print(f"\n{name}._fields_ = [")
        for member, kind in structs[name]:
            print(f'    ("{member}", {kind}),')
        print("]")
    print("\nSTRUCTS = [" + ", ".join(placed) + "]")
    print("\nFUNCTIONS = {")
    for name, (result, parameters) in functions.items():
        print(f'    "{name}": ({result}, [{", ".join(parameters)}]),')
    print("}")


if __name__ == "__main__":
    main()
