#!/usr/bin/env bash
# Makes and checks the source tarball and the Python wheel of a release. Setting the tag and publishing are left to the maintainer; the last lines say how.
#
#   1. The tree: nothing uncommitted, no such tag yet; version, changelog and citation agree; no placeholder contacts.
#   2. build/dist/charl-VERSION.tar.gz from the commit, the same bytes whenever it is made, with its SHA-256 beside it.
#   3. The tarball is unpacked in an empty directory, built, and tested with tests/run.sh --quick.
#   4. build/dist/charl-VERSION-*.whl from the unpacked sources, for Linux with the C library of cmake/sysroot.cmake or a later one.
#
# Usage: tools/release.sh [--check | --try]
#   --check  step 1 only
#   --try    go on after problems of step 1, to see whether the tarball builds; the exit status is 1 all the same
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

mode=${1:-}
case $mode in
'' | --check | --try) ;;
*)
    sed -n 's/^# Usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
problems=0
problem() {
    echo "release: $1" >&2
    problems=$((problems + 1))
}

version=$(sed -n 's/^project(charl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$version" ] || {
    echo "release: CMakeLists.txt has no line project(charl VERSION ...)" >&2
    exit 2
}

[ -z "$(git status --porcelain)" ] || problem "there are uncommitted changes: commit them first (git status)"
if git rev-parse -q --verify "refs/tags/v$version" >/dev/null; then
    problem "the tag v$version exists: raise the version in CMakeLists.txt"
fi
heading=$(grep -m 1 '^## ' CHANGELOG.md)
case $heading in
"## $version ("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]")") ;;
*) problem "CHANGELOG.md begins with \"$heading\", not with \"## $version (YYYY-MM-DD)\"" ;;
esac
cited=$(sed -n 's/^version: *//p' CITATION.cff)
[ "$cited" = "$version" ] || problem "CITATION.cff has version $cited, CMakeLists.txt $version"
for file in SECURITY.md CITATION.cff; do
    ! grep -q 'charl\.invalid' "$file" || problem "$file has a placeholder address ($(grep -o '[a-z]*@charl\.invalid' "$file" | head -1)): write a real one"
done

if [ $problems -gt 0 ] && [ "$mode" != --try ]; then
    echo "release: $problems problems; nothing was made" >&2
    exit 1
fi
if [ "$mode" = --check ]; then
    echo "release: version, changelog, citation and contacts of $version are in order"
    exit 0
fi

name=charl-$version
mkdir -p build/dist
git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"build/dist/$name.tar.gz" || exit 1
(cd build/dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256" && cat "$name.tar.gz.sha256")

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xzf "build/dist/$name.tar.gz" || exit 1
if ! "$work/$name/tests/run.sh" --quick >"build/dist/$name.log" 2>&1; then
    tail -n 40 "build/dist/$name.log" >&2
    echo "release: the tarball does not build or pass its tests: build/dist/$name.log" >&2
    exit 1
fi
built=$("$work/$name/build/release/src/cli/charl" version)
if [ "$built" != "charl $version" ]; then
    echo "release: the built program says \"$built\", not \"charl $version\"" >&2
    exit 1
fi
if ! (cd "$work/$name" && cmake --preset tarball && cmake --build --preset tarball) >"build/dist/$name.log" 2>&1; then
    tail -n 40 "build/dist/$name.log" >&2
    echo "release: the preset tarball does not build: build/dist/$name.log" >&2
    exit 1
fi
wheel=$(python3 "$work/$name/python/make_wheel.py" "$work/$name/build/tarball" -o build/dist) || exit 1
(cd build/dist && sha256sum "${wheel##*/}" >"${wheel##*/}.sha256")
[ $problems -eq 0 ] || exit 1
cat <<END
release: build/dist/$name.tar.gz and build/dist/${wheel##*/} are checked. To release it:

  git tag -s v$version -m "charl $version" $(git rev-parse --short HEAD)
  git push origin v$version

Recipes for Spack, conda-forge, Nix and EasyBuild: python3 packaging/recipes.py build/dist/$name.tar.gz --url URL -o build/dist
Before that: tests/run.sh (all tests), tests/gpu.sh on a GPU, tests/install/chroot.sh with the packages, and CHARL_TEST_LONG=1
ctest --preset release -R install/wheel, which tries the wheel of a release on every Python of this machine (CONTRIBUTING.md).
END
