#!/usr/bin/env python3
"""Checks a built site: every link and picture leads to a file, every anchor to an element, and the search index has every page.

Usage: check.py HTML
"""
import html.parser
import os
import sys
import urllib.parse

ROOT = sys.argv[1]


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids = set()
        self.links = []
        with open(path, encoding="utf-8") as f:
            self.feed(f.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        self.links += [attrs[key] for key in ("href", "src") if attrs.get(key)]


def main():
    pages = {}
    for folder, _, files in os.walk(ROOT):
        for name in files:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                pages[os.path.normpath(path)] = Page(path)
    broken = []
    count = 0
    for path, page in sorted(pages.items()):
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path))) if parts.path else path
            if not os.path.isfile(target):
                broken.append("%s: %s: no such file" % (path, link))
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                broken.append("%s: %s: no such anchor" % (path, link))
    with open(os.path.join(ROOT, "searchindex.js"), encoding="utf-8") as f:
        index = f.read()
    for path in pages:
        name = os.path.relpath(path, ROOT)[:-5]
        if name not in ("search", "genindex") and '"%s"' % name not in index:
            broken.append("%s: not in the search index" % path)
    for line in broken:
        print(line)
    print("%d pages, %d links, %d broken" % (len(pages), count, len(broken)))
    sys.exit(1 if broken else 0)


main()
