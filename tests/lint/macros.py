"""Lists macros of kernels/ that should be functions.

Those that use a name which is neither their parameter nor known to the whole file: a local variable, say, of whoever uses the macro. Names
with capitals only are constants and types, names before a parenthesis are functions; both are not looked at.
And those with parameters whose body is longer than a line. What is the same for several types stands in a file *_of.clh, which is included
once for each.

Usage: macros.py ROOT; prints FILE:LINE: MACRO and what is wrong for each, and the numbers of them last.
"""
import pathlib
import re
import sys

WORDS = set("""
    break case const continue default do else enum for goto if inline return sizeof static struct switch typedef union volatile while restrict
    as_float as_int as_uint vload vstore asm __asm__ constant global kernel local private unroll nounroll true false pure aligned
    bool char uchar short ushort int uint long ulong float double half size_t void unsigned signed
""".split())
VECTOR = re.compile(r"(u?(char|short|int|long)|float|double|half)(2|3|4|8|16)$")
NAME = re.compile(r"[A-Za-z_]\w*")
# An attribute, a number and the end of a field's or pasted name are no names of their own.
NOT_NAMES = re.compile(r'"(?:\\.|[^"\\])*"|(?<![\w.])\.?\d[\w.]*|(?:\.|->)\s*[A-Za-z_]\w*|\w*\s*##\s*\w+|#\s*\w+')
DECLARED = re.compile(r"(?:^|[;{(,]|\bconst\b)\s*(?:const\s+|unsigned\s+|global\s+|local\s+)*([A-Za-z_]\w*)\s+\**\s*(?:const\s+)?([A-Za-z_]\w*)\s*(?=[=;\[,])")


def without_comments(text):
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def definitions(text):
    """(line, name, parameters, body) of every macro."""
    for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?((?:.*\\\n)*.*)$", text, re.M):
        parameters = NAME.findall(m.group(2) or "")
        if m.group(2) and "..." in m.group(2):
            parameters.append("__VA_ARGS__")
        yield text.count("\n", 0, m.start()) + 1, m.group(1), parameters, m.group(3).replace("\\\n", " ")


LONG = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\([^)]*\).*\\\n", re.M)


def of_file(text):
    """Names at the outermost level of a file: types, functions, constants."""
    text = re.sub(r"^[ \t]*#.*(?:\\\n.*)*$", "", text, flags=re.M)
    names = set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)", text)) | set(re.findall(r"\}\s*(\w+)\s*;", text))
    names |= set(re.findall(r"^typedef\b[^;{]*?\b(\w+)\s*;", text, re.M)) | set(re.findall(r"^typedef\b[^;{]*?\b(\w+)\s*,", text, re.M))
    names |= set(re.findall(r"^(?:static|CHARL_OVERLOAD|CHARL_INLINE|CHARL_IN_KERNEL)\b[^;{(]*?\b(\w+)\s*\(", text, re.M))
    names |= set(re.findall(r"^constant\b[^;=\[]*?\b(\w+)\s*[=\[]", text, re.M))
    return names


def declarators(text):
    """The names declared by `NAME = ..., NAME[...], NAME;` or by a parameter, `NAME, ...`; text begins with the first of them."""
    names, depth, begins = [], 0, True
    for m in re.finditer(r"[A-Za-z_]\w*|[()\[\]{},;]", text):
        t = m.group()
        if t in "([{":
            depth += 1
        elif t in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif t == ";":
            break
        elif t == ",":
            begins = begins or depth == 0
        elif begins and depth == 0 and t != "const":
            names.append(t)
            begins = False
    return names


def declared(body):
    """Names that a macro declares for itself, in statements, heads of loops and functions; the names of a list of arguments are its user's."""
    names = set()
    for m in DECLARED.finditer(body):
        if m.group(1) not in ("return", "else", "goto") and (body[m.end()] in "=;[" or ";" in body[m.end() :]):
            names |= set(declarators(body[m.start(2) :]))
    for m in re.finditer(r"\b\w+\(([^()]*)\)\s*\{", body):
        names |= {words[-1] for words in map(NAME.findall, m.group(1).split(",")) if len(words) > 1}
    return names


def captured(parameters, body, known):
    body = re.sub(r"__attribute__\(\(.*?\)\)(?=[^)]|$)", " ", body)
    body = re.sub(r"\b(?:CHARL_GLUE|_Pragma)\(\s*\w*", "(", body)
    body = re.sub(r"\w+(?:\s*##\s*\w+)+", lambda m: "PASTED" if set(NAME.findall(m.group())) & set(parameters) else m.group(), body)
    body = NOT_NAMES.sub(" ", body)
    known = known | declared(body) | set(parameters)
    found = []
    for m in NAME.finditer(body):
        w = m.group()
        if w in known or w in WORDS or w == w.upper() or VECTOR.match(w) or body[m.end() :].lstrip().startswith("(") or w in found:
            continue
        found.append(w)
    return found


def scopes(texts, kernels):
    """For each file the names of the files with which it is compiled."""
    names = {f: of_file(text) for f, text in texts.items()}
    prelude = set().union(*(names[f] for f in texts if f.parent.name == "prelude"))
    known = {f: set(prelude) for f in texts}
    for f, text in texts.items():
        unit = [f] + [kernels / include for include in re.findall(r'^#include "([^"]+)"', text, re.M)]
        together = set().union(*(names.get(g, set()) for g in unit))
        for g in unit:
            known.setdefault(g, set()).update(together)
    return known


def main(root):
    kernels = pathlib.Path(root) / "kernels"
    texts = {f: without_comments(f.read_text()) for f in sorted([*kernels.rglob("*.cl*"), *kernels.rglob("*.h")])}
    macros = {name for text in texts.values() for _, name, _, _ in definitions(text)}
    known = scopes(texts, kernels)
    count = long = 0
    for f, text in texts.items():
        for m in LONG.finditer(text):
            long += 1
            print(f"{f.relative_to(root)}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(1)} is longer than a line; write a function")
        for line, name, parameters, body in definitions(text):
            found = captured(parameters, body, known[f] | macros)
            if found:
                count += 1
                print(f"{f.relative_to(root)}:{line}: {name} uses {', '.join(found)}, which it is not given")
    print(f"{count} macros use names of whoever uses them, {long} with parameters are longer than a line")
    return count + long > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
