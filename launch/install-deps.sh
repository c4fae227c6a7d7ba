#!/usr/bin/env bash
# Install what charl needs on Debian 12 or Ubuntu 24.04: only packages that are missing, with sudo when not root.
# Usage: install-deps.sh [--package] [--docs] [--tests] [--list]
#   --package  also what making Debian packages takes
#   --docs     also what docs/site/build.sh takes
#   --tests    also what the tests use; a test skips, visibly, what a distribution does not have
#   --list     print the packages that are missing and install nothing
set -euo pipefail

packages=(gcc libc6-dev cmake ninja-build pkg-config gzip
    ocl-icd-opencl-dev opencl-headers pocl-opencl-icd
    libopenmpi-dev openmpi-bin libhdf5-dev zlib1g-dev libjansson-dev
    libpng-dev libjpeg-dev libpcre2-dev libutf8proc-dev liblzf-dev)
test_packages=(libcmocka-dev clang clang-format valgrind python3-h5py python3-numpy hdf5-tools faketime)
package_tools=(dpkg-dev file)
docs_tools=(python3-sphinx python3-myst-parser furo mandoc)
optional=()
list_only=no

for option in "$@"; do
    case $option in
    --package) packages+=("${package_tools[@]}") ;;
    --docs) packages+=("${docs_tools[@]}") ;;
    --tests)
        packages+=("${test_packages[@]}")
        optional=(python3-torch python3-venv chromium zsh fish "${package_tools[@]}" "${docs_tools[@]}" lintian oclgrind
            abigail-tools slurmctld slurmd slurm-client munge python3-jsonschema python3-yaml)
        ;;
    --list) list_only=yes ;;
    *)
        echo "usage: $0 [--package] [--docs] [--tests] [--list]" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "install-deps: no dpkg here; install the equivalents of: ${packages[*]}" >&2
    exit 0
fi

is_missing() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" != installed ]
}

missing=()
for package in "${packages[@]}"; do
    if is_missing "$package"; then
        missing+=("$package")
    fi
done
missing_optional=()
for package in "${optional[@]}"; do
    if is_missing "$package"; then
        missing_optional+=("$package")
    fi
done
all=("${missing[@]}" "${missing_optional[@]}")
if [ ${#all[@]} -eq 0 ]; then
    exit 0
fi
if [ $list_only = yes ]; then
    printf '%s\n' "${all[@]}"
    exit 0
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        if [ ${#missing[@]} -eq 0 ]; then
            echo "install-deps: not root: going on without ${missing_optional[*]}"
            exit 0
        fi
        echo "install-deps: run as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    sudo=(sudo)
fi
install() {
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" </dev/null
}
update() {
    "${sudo[@]}" apt-get update -q </dev/null
}

if [ ${#missing[@]} -gt 0 ]; then
    echo "install-deps: installing ${missing[*]}"
    # A fresh machine has no package lists; one that is in use may have stale ones.
    if ! install "${missing[@]}"; then
        update
        install "${missing[@]}"
    fi
fi
for package in "${missing_optional[@]}"; do
    echo "install-deps: installing $package"
    install "$package" || { update && install "$package"; } ||
        echo "install-deps: $package cannot be installed here; tests that need it are skipped"
done
