#!/bin/sh
# tools/release.sh --check: what stands in the way of a release is named, and a tree in order passes.
. "$(dirname "$0")/../train/common.sh"
source=$here/../..

mkdir tree tree/tools
cp "$source/CMakeLists.txt" "$source/CHANGELOG.md" "$source/SECURITY.md" "$source/CITATION.cff" tree
cp "$source/tools/release.sh" tree/tools
cd tree || exit 1
version=$(sed -n 's/^project(charl VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
save() {
    git add -A && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m tree || exit 1
}
git init -q . && save

sed -i "s/^## $version .*/## $version (unreleased)/" CHANGELOG.md
save
expect 1 "placeholders" tools/release.sh --check
says 1 "SECURITY.md has a placeholder address"
says 1 "CITATION.cff has a placeholder address"
says 1 "CHANGELOG.md begins with"
says 1 "3 problems; nothing was made"
sed -i 's/charl\.invalid/example.org/' SECURITY.md CITATION.cff
sed -i "s/^## $version .*/## $version (2026-12-01)/" CHANGELOG.md
expect 1 "uncommitted changes" tools/release.sh --check
says 1 "uncommitted changes"
save
expect 0 "a tree in order" tools/release.sh --check
sed -i 's/^version: .*/version: 9.9.9/' CITATION.cff
save
expect 1 "another version" tools/release.sh --check
says 1 "CITATION.cff has version 9.9.9, CMakeLists.txt $version"
git tag "v$version"
expect 1 "a tag that exists" tools/release.sh --check
says 1 "the tag v$version exists"
expect 2 "an unknown option" tools/release.sh --now
finish
