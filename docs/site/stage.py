#!/usr/bin/env python3
"""Makes the sources of the documentation site: docs/, and what is generated from the programs and headers.

- docs/README.md becomes the first page. The pages that it links to, section by section, are the navigation.
- Links to files of the tree outside docs/ lead to pages with the text of these files.
- The manual pages, which the programs write, become the reference of commands and keys.
- The comments of include/charl become the reference of the C library.

Usage: stage.py ROOT BIN OUT     BIN: the directory of charl, charl-train and charl-bench
"""
import glob
import os
import posixpath
import re
import shutil
import subprocess
import sys

ROOT, BIN, OUT = sys.argv[1:]
LANGUAGES = {".c": "c", ".h": "c", ".cl": "c", ".ini": "ini", ".sh": "bash", ".py": "python", ".yaml": "yaml", ".sbatch": "bash"}
linked = set()  # files of the tree that pages link to
folders_linked = set()


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def write(page, text):
    path = os.path.join(OUT, page)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def page_of(path):
    """The page for a file or folder of the tree."""
    if path == "docs/README.md":
        return "index.md"
    if path in ("docs/models", "docs/adr"):
        return path[5:] + "/index.md"
    if path.startswith("docs/") and path.endswith(".md"):
        return path[5:]
    header = re.fullmatch(r"include/charl/(\w+)\.h", path)
    if header:
        return "c/%s.rst" % header.group(1)
    if path.startswith("launch/") and path.endswith(".ini"):
        linked.add(path)
    if os.path.isdir(os.path.join(ROOT, path)):
        folders_linked.add(path)
        return "tree/%s/index.md" % path
    linked.add(path)
    return "tree/" + path if path.endswith(".md") else "tree/%s.md" % path


def rewrite(text, path, page):
    """Lets the links of the file `path` lead to pages, as seen from `page`. Fenced and indented code is left alone."""
    def link(m):
        target, anchor = m.group(1), m.group(2) or ""
        if re.match(r"[a-z]+:", target) or (not target and anchor):
            return m.group(0)
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if not os.path.exists(os.path.join(ROOT, target)):
            sys.exit("%s: links to %s, which does not exist" % (path, target))
        if re.search(r"\.(png|svg|csv)$", target):
            shutil.copy(os.path.join(ROOT, target), os.path.join(OUT, os.path.dirname(page)))
            return "](%s)" % posixpath.basename(target)
        return "](%s%s)" % (posixpath.relpath(page_of(target), posixpath.dirname(page) or "."), anchor)

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(p if p.startswith("```") else re.sub(r"\]\(([^)#\s]*)(#[^)]*)?\)", link, p) for p in parts)


def toctree(pages, caption=None, hidden=True, depth=1):
    lines = ["```{toctree}", ":maxdepth: %d" % depth]
    lines += [":hidden:"] if hidden else []
    lines += [":caption: " + caption] if caption else []
    return "\n".join(lines + [""] + [re.sub(r"\.\w+$", "", p) for p in pages] + ["```", ""])


def stage_docs():
    for path in sorted(glob.glob(os.path.join(ROOT, "docs/**/*.md"), recursive=True)):
        path = os.path.relpath(path, ROOT)
        if path == "docs/README.md":
            continue
        page = page_of(path)
        os.makedirs(os.path.dirname(os.path.join(OUT, page)), exist_ok=True)
        write(page, rewrite(read(path), path, page))
    for folder, title in (("models", "Models"), ("adr", "Architecture decisions")):
        pages = sorted(os.path.basename(p) for p in glob.glob(os.path.join(ROOT, "docs", folder, "*.md")))
        write(folder + "/index.md", "# %s\n\n%s" % (title, toctree(pages, hidden=False)))


def stage_index():
    """docs/README.md, with a part of the navigation for each of its sections."""
    more = {"Reference": ["commands/charl-train.md", "commands/charl.md", "commands/charl-bench.md", "commands/keys.md", "c/index.rst", "tree/index.md"]}
    text = read("docs/README.md")
    out = []
    for part in re.split(r"(?m)^(?=## )", text):
        title = re.match(r"## (.*)", part)
        part = rewrite(part, "docs/README.md", "index.md")
        out.append(part)
        if title:
            pages = []
            for target in re.findall(r"\]\(([^)#:]+\.(?:md|rst))(?:#[^)]*)?\)", part):
                if target not in pages and not target.startswith("tree/"):
                    pages.append(target)
            out.append("\n" + toctree(pages + more.pop(title.group(1), []), caption=title.group(1)) + "\n")
    if more:
        sys.exit("docs/README.md has no section " + ", ".join(more))
    write("index.md", "".join(out))


def stage_commands():
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
    for name, program, option in (("charl", "charl", "--man"), ("charl-train", "charl-train", "--man"), ("charl-bench", "charl-bench", "--man"),
                                  ("keys", "charl-train", "--man=config")):
        man = subprocess.run([os.path.join(BIN, program), option], check=True, stdout=subprocess.PIPE, env=env).stdout
        text = subprocess.run(["mandoc", "-T", "markdown"], input=man, check=True, stdout=subprocess.PIPE).stdout.decode()
        lines = text.split("\n")
        while lines and (not lines[-1].strip() or lines[-1].startswith("charl ")):
            lines.pop()  # the footer
        lines = lines[2:]  # the page's name and section
        while not lines[-1].strip() or re.match(r"charl.* - .*\d{4}", lines[-1]):
            lines.pop()
        out = ["# Configuration keys" if name == "keys" else "# " + name, ""]
        section = ""
        for line in lines:
            heading = re.match(r"(#+) (.*)", line)
            if heading:
                if heading.group(1) == "#":
                    words = heading.group(2).lower().capitalize()
                    out.append("## " + words)
                    section = ""
                else:
                    section = re.sub(r"[\\\[\]&;]|&.*?;", "", heading.group(2)) if name == "keys" else ""
                    out.append("### " + heading.group(2))
                continue
            key = re.match(r"\*\*([\w\\.]+)\*\*(.*)", line) if name == "keys" and section else None
            if key:
                out.append("#### %s.%s" % (section, key.group(1)))
                default = key.group(2).strip()
                if default:
                    out += ["", "Required." if "required" in default else "Default: " + re.sub(r"^= *", "", default)]
                continue
            line = re.sub(r"\b(charl(?:-train|-bench)?)\(1\)", r"[\1](\1.md)", line.replace("&#45;", "-"))
            line = line.replace("charl-config(5)", "[configuration keys](keys.md)")
            out.append(line)
        write("commands/%s.md" % name, "\n".join(out) + "\n")


# --- C reference -------------------------------------------------------------------------------------------------------------------------

def comment_text(comment):
    """The lines of a comment without its stars."""
    lines = re.sub(r"^/\*\*?|\*/$", "", comment.strip()).split("\n")
    out = [lines[0].strip()]
    for line in lines[1:]:
        out.append(re.sub(r"^\s*\* ?", "", line).rstrip())
    rest = [l for l in out[1:] if l.strip()]
    indent = min((len(l) - len(l.lstrip()) for l in rest), default=0)
    return [out[0]] + [l[indent:] for l in out[1:]]


def rst_escape(text, names, me):
    def word(m):
        name = m.group(0)
        if name in names and name != me:
            return "\\ :c:%s:`%s`\\ " % (names[name], name)
        return name.replace("_", "\\_")
    text = re.sub(r"([\\*|])", r"\\\1", text)
    parts = re.split(r"`([^`\s][^`]*)`", text)  # `name` is code
    return "".join("\\ ``%s``\\ " % p.replace("\\", "") if i % 2 else re.sub(r"charl_\w+|\w*_\b", word, p.replace("`", "\\`")) for i, p in enumerate(parts))


def rst_comment(lines, names, me=""):
    """Paragraphs become paragraphs; lines that are indented or hold columns stay as they are."""
    out = []
    block = []

    def flush(literal):
        if block:
            if literal:
                out.extend(["::", ""] + ["    " + l for l in block] + [""])
            else:
                out.extend([rst_escape(" ".join(l.strip() for l in block), names, me), ""])
            block.clear()

    literal = False
    for line in lines:
        if not line.strip():
            if literal and block:
                block.append("")
                continue
            flush(literal)
            literal = False
            continue
        columns = re.search(r"\S {2,}\S", line) is not None or line.startswith("   ")
        if columns != literal:
            while block and not block[-1]:
                block.pop()
            if columns and block and not literal and re.match(r"(Errors|Cost):", line.strip()):
                pass
            flush(literal)
            literal = columns
        block.append(line)
    while block and not block[-1]:
        block.pop()
    flush(literal)
    return out


def declarations(text):
    """The comments and declarations of a header: (comment or None, declaration), after the comment at its top."""
    body = re.sub(r"(?m)^#.*(\\\n.*)*$", "", text)
    body = re.sub(r"CHARL_(BEGIN|END)_DECLS", "", body)
    pos = 0
    comment = None
    token = re.compile(r"\s*(?:(/\*.*?\*/)|(//[^\n]*)|([^;{/]*(?:\{(?:[^\n]*\}|.*?^\})[^;\n]*)?;)([ \t]*/\*.*?\*/)?)", re.S | re.M)
    blank = re.compile(r"\n\s*\n")
    out = []
    while True:
        m = token.match(body, pos)
        if not m:
            break
        if blank.match(body[pos:m.end()].lstrip(" \t")[:200]) and not m.group(1):
            comment = None if blank.search(body[pos:m.start(3)] if m.group(3) else "") else comment
        if m.group(1):
            comment = m.group(1)
        elif m.group(3):
            out.append((comment, m.group(3).strip() + (" " + m.group(4).strip() if m.group(4) else "")))
        pos = m.end()
    return out


def kind_of(declaration):
    """(role of Sphinx's C domain, name) of a declaration."""
    head = declaration.split("/*")[0]
    m = re.match(r"typedef (struct|enum|union) (\w+)", declaration)
    if m:
        return ("enum" if m.group(1) == "enum" else "struct"), re.search(r"(\w+);", declaration[declaration.rfind("}"):]).group(1) if "}" in declaration else m.group(2)
    m = re.match(r"(struct|union|enum) (\w+) \{", declaration)
    if m:
        return ("enum" if m.group(1) == "enum" else "struct"), m.group(2)
    if declaration.startswith("enum"):
        return "constants", ""
    m = re.match(r"typedef .*?\(\*(\w+)\)\(", declaration, re.S) or re.match(r"typedef .*?(\w+);", head, re.S)
    if m:
        return "type", m.group(1)
    m = re.match(r"[\w\s*]*?\b(charl_\w+)\(", head)
    return ("func", m.group(1)) if m else ("other", "")


def prototype_of(declaration):
    prototype = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/|\s*;.*$", " ", declaration, flags=re.S)).strip()
    return re.sub(r"\s*\bCHARL_[A-Z]\w*(\([^)]*\))?$", "", prototype)


def stage_headers():
    headers = {}
    names = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "include/charl/*.h"))):
        name = os.path.basename(path)[:-2]
        text = read("include/charl/%s.h" % name)
        top = re.search(r"/\*\*.*?\*/", text, re.S)
        items = declarations(text[top.end():] if top else text)
        headers[name] = (top.group(0) if top else None, items)
        for _, declaration in items:
            kind, who = kind_of(declaration)
            if who:
                names.setdefault(who, {"func": "func", "struct": "struct", "enum": "enum", "type": "type"}[kind])
    seen = set()
    rows = []
    for name, (top, items) in headers.items():
        title = "charl/%s.h" % name
        out = [title, "=" * len(title), ""]
        lines = comment_text(top) if top else [""]
        out += rst_comment(lines, names)
        rows.append((name, re.split(r"(?<=[.:])\s", " ".join(l.strip() for l in lines))[0].rstrip(":")))
        i = 0
        while i < len(items):
            comment, declaration = items[i]
            group = [declaration]
            while i + 1 < len(items) and items[i + 1][0] is comment and comment is not None:
                i += 1
                group.append(items[i][1])
            i += 1
            kind, who = kind_of(group[0])
            described = comment_text(comment) if comment else []
            functions = [(k, w, d) for d in group for k, w in [kind_of(d)]]
            if all(k == "func" for k, _, _ in functions) and not any(w in seen for _, w, _ in functions):
                for n, (_, w, d) in enumerate(functions):
                    out.append((".. c:function:: " if n == 0 else "                ") + prototype_of(d))
                    seen.add(w)
                out.append("")
                trailing = [t for _, _, d in functions for t in re.findall(r";\s*(/\*.*?\*/)", d, re.S)]
                text = rst_comment(described, names, functions[0][1])
                for t in trailing:
                    text += rst_comment(comment_text(t), names)
                out += ["   " + l if l else "" for l in text] + [""]
                continue
            for n, (k, w, d) in enumerate(functions):
                indent = ""
                if k == "func" and w not in seen:
                    seen.add(w)
                    out += [".. c:function:: " + prototype_of(d), ""]
                    continue
                if w and w not in seen and k != "func":
                    seen.add(w)
                    out += [".. c:%s:: %s" % (k, w), ""]
                    indent = "   "
                if n == 0:
                    out += [indent + l if l else "" for l in rst_comment(described, names, w)]
                if not re.fullmatch(r"typedef (struct|union) \w+ \w+;", d):
                    out += [indent + ".. code-block:: c", ""] + [indent + "   " + l for l in d.split("\n")] + [""]
        write("c/%s.rst" % name, "\n".join(out) + "\n")
    index = ["C library", "=========", "",
             "Every public header, from the comments in ``include/charl``. ``charl/charl.h`` includes them all. "
             ":doc:`/library` explains how to use them.", "", ".. list-table::", "   :widths: 30 70", ""]
    for name, summary in rows:
        index += ["   * - :doc:`%s`" % name, "     - " + rst_escape(summary, {}, "")]
    index += ["", ".. toctree::", "   :hidden:", ""] + ["   " + name for name, _ in rows]
    write("c/index.rst", "\n".join(index) + "\n")


def stage_tree():
    """Pages with the text of the example configurations, programs and whatever else pages link to."""
    for pattern in ("launch/*.ini", "examples/*.c", "examples/CMakeLists.txt", "datasets/README.md", "checkpoints/README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        linked.update(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, pattern)))
    done = set()
    while linked - done:
        path = sorted(linked - done)[0]
        done.add(path)
        page = page_of(path)
        if path.endswith(".md"):
            write(page, rewrite(read(path), path, page))
            continue
        fence = "````"
        language = LANGUAGES.get(os.path.splitext(path)[1], "none")
        write(page, "# %s\n\n%s{code-block} %s\n%s\n%s\n" % (path, fence, language, read(path).rstrip("\n"), fence))
    folders = {path: [] for path in folders_linked}
    for path in done:
        folders.setdefault(posixpath.dirname(path), []).append(path)
    top = []
    for folder in sorted(folders):
        pages = [posixpath.relpath(page_of(p), "tree/" + folder if folder else "tree") for p in sorted(folders[folder])]
        if not folder:
            top += pages
            continue
        text = toctree(pages, hidden=False) if pages else "```\n%s\n```\n" % "\n".join(sorted(os.listdir(os.path.join(ROOT, folder))))
        write("tree/%s/index.md" % folder, "# %s\n\n%s" % (folder, text))
        top.append(folder + "/index.md")
    write("tree/index.md", "# Files of the source tree\n\nExample configurations, example programs, file formats, and the files that other pages mention.\n\n" +
          toctree(top, hidden=False, depth=2))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(os.path.join(OUT, "static"))
    shutil.copy(os.path.join(ROOT, "docs/site/conf.py"), OUT)
    shutil.copy(os.path.join(ROOT, "docs/site/charl.css"), os.path.join(OUT, "static"))
    stage_docs()
    stage_index()
    stage_commands()
    stage_headers()
    stage_tree()


main()
