#!/usr/bin/env bash
# Builds the documentation site from the tree: pages, commands, configuration keys and the C library. Warnings are errors, and every link
# is checked. Needs the built programs. On Debian 12 and Ubuntu 24.04, --install installs what is missing: Sphinx, MyST, Furo and mandoc.
# Usage: docs/site/build.sh [--install] [--check] [OUT]        OUT: build/site; open OUT/html/index.html
#        --check             read all pages and resolve their links, and write nothing: in seconds
#        CHARL_BIN_DIR=DIR   where charl and charl-train are (build/release/src/cli)
# Exit status 77: a generator is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

check=no
while true; do
    case ${1:-} in
    --install) bash launch/install-deps.sh --docs ;;
    --check) check=yes ;;
    *) break ;;
    esac
    shift
done
out=${1:-build/site}
bin=${CHARL_BIN_DIR:-build/release/src/cli}

python=
for candidate in python3 /usr/bin/python3; do # Debian's packages are for Debian's Python
    if "$candidate" -c "import sphinx, myst_parser, furo" 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ] || ! command -v mandoc >/dev/null; then
    echo "docs/site/build.sh: needs Sphinx, MyST, Furo and mandoc (docs/site/build.sh --install installs them)" >&2
    exit 77
fi
if [ ! -x "$bin/charl" ]; then
    echo "docs/site/build.sh: there is no $bin/charl: build charl first, or set CHARL_BIN_DIR" >&2
    exit 1
fi

mkdir -p "$out"
SITE_VERSION=$("$bin/charl" version | sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p')
export SITE_VERSION
"$python" docs/site/stage.py . "$bin" "$out/source"
if [ $check = yes ]; then
    "$python" -m sphinx -q -E -W --keep-going -b dummy -d "$out/doctrees" "$out/source" "$out/dummy"
    exit 0
fi
"$python" -m sphinx -q -E -W --keep-going -b html -d "$out/doctrees" "$out/source" "$out/html"
"$python" docs/site/check.py "$out/html"
echo "$out/html/index.html"
