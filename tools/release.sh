#!/usr/bin/env bash
# Makes every file of a release in a folder: tools/release.sh [FOLDER] (dist). The source, the sdist, the wheels, the Debian packages, the
# zip for Windows, an SBOM and SHA256SUMS. RVIT_WHEELS names the targets of python/build_wheel.sh (default: all). Most of the time is
# nvcc's; RVIT_CUDA=OFF leaves the kernels out, for a trial.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-dist}")
fail() { echo "release: $*" >&2; exit 1; }
[ -z "$(git status --porcelain --untracked-files=no)" ] || fail "the tree has changes that are not committed"
version=$(sed -nE 's/^project\(raggedvit VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf build/release-files
mkdir -p build/release-files "$folder"
files=$PWD/build/release-files

git archive --prefix="raggedvit-$version/" HEAD | gzip -9n >"$files/raggedvit-$version-source.tar.gz"
for target in ${RVIT_WHEELS:-$(sed -nE 's/^#   ((many|musl)linux|macosx|win)(_[a-z0-9_]+) .*/\1\3/p' python/build_wheel.sh)}; do
    python/build_wheel.sh "$target" "$files"
done
build/wheel/venv/bin/python -m pip --quiet --disable-pip-version-check install build
build/wheel/venv/bin/python -m build --sdist --no-isolation --outdir "$files" . >build/sdist.log ||
    fail "there is no sdist: build/sdist.log"
tools/deb.sh --reproducible "$files"
if [ -x tools/windows.sh ]; then
    tools/windows.sh build zip
    cp "build/windows/raggedvit-$version-windows-x86_64.zip" "$files/"
fi
find "$files" -type f \( -name '*.whl' -o -name '*.deb' -o -name '*.zip' -o -name '*.tar.*' \) -exec python3 tools/sbom.py {} + \
    >"$files/raggedvit-$version.spdx.json"
(cd "$files" && sha256sum -- * >SHA256SUMS)
cp "$files"/* "$folder/"
cat "$folder/SHA256SUMS"
