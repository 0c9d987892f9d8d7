#!/usr/bin/env bash
# Makes the Debian source package and the packages that this system builds of it: tools/deb.sh [FOLDER] (dist/deb). No CUDA is in them. The
# packages are checked by lintian, which may find no error and no warning. As root, missing build dependencies are installed. With
# --reproducible it builds a second time, in another folder, and compares the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
again=0
[ "${1:-}" != --reproducible ] || { again=1; shift; }
folder=$(realpath -m "${1:-dist/deb}")
fail() { echo "deb: $*" >&2; exit 1; }

version=$(sed -nE '1s/.*\((.*)-[^-]*\).*/\1/p' debian/changelog)
grep -q "^project(raggedvit VERSION $version " CMakeLists.txt || fail "debian/changelog is of version $version"
if [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    command -v lintian dpkg-buildpackage dh >/dev/null || { apt-get -qq update
        apt-get -qq install -y --no-install-recommends debhelper dpkg-dev fakeroot lintian >/dev/null; }
    dpkg-checkbuilddeps 2>/dev/null || { apt-get -qq update && apt-get -qq build-dep -y --no-install-recommends "$PWD" >/dev/null; }
fi

# build FOLDER: makes the source and the packages there, of the files that git knows, as they are now
build() {
    local source=$1/raggedvit-$version
    rm -rf "$1"
    mkdir -p "$source"
    git ls-files -z | grep -zvE "^(\.ci/|debian/|bench/results/|$(grep -v '^#' debian/not-in-source | sed 's/\*/.*/' | paste -sd '|'))" |
        tar --create --null --files-from - --sort=name --mtime="@$(dpkg-parsechangelog -S Timestamp)" --owner=0 --group=0 --numeric-owner \
            --transform "s,^,raggedvit-$version/," | gzip -9n >"$1/raggedvit_$version.orig.tar.gz"
    tar --extract --gzip --file "$1/raggedvit_$version.orig.tar.gz" --directory "$1"
    cp -r debian "$source/"
    (cd "$source" && env -u CMAKE_C_COMPILER_LAUNCHER dpkg-buildpackage -us -uc) >"$1/log" 2>&1 ||
        { tail -40 "$1/log"; fail "dpkg-buildpackage fails: $1/log"; }
    rm -rf "$source"
}

build build/deb
if [ $again = 1 ]; then
    build build/deb-again/elsewhere
    for package in build/deb/*.deb; do
        cmp "$package" "build/deb-again/elsewhere/$(basename "$package")" || fail "$package is not reproducible"
    done
    echo "deb: the packages are reproducible" >&2
fi
# Suppressed: the maintainer's address is the builder's to set, the packages close no bug, and the source has no public address yet.
lintian --allow-root --tag-display-limit 0 --fail-on error,warning --suppress-tags \
    bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs build/deb/*.changes >&2
mkdir -p "$folder"
cp build/deb/*.{deb,dsc,tar.*,changes,buildinfo} "$folder/"
echo "$folder"
