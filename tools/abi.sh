#!/usr/bin/env bash
# Compares the shared library with abi/libraggedvit.abi, the committed ABI of this version (abidw), so that programs built with the headers
# of that ABI run with this tree's library. Allowed are new functions and fields appended to a struct. Other changes need a new major
# version or, before 1.0, a new minor version; then write a new baseline. Skipped without abigail-tools.
#
# The baseline holds for all 64-bit systems: clang checks that the headers, which need only <stddef.h> and <stdint.h>, give the same
# layout on each, in C and in C++.
#
# usage: tools/abi.sh [--write]     --write: writes the baseline from this tree
#        tools/abi.sh exports FILE  checks that the DLL, Mach-O or ELF library FILE exports exactly the functions of the baseline
set -euo pipefail
cd "$(dirname "$0")/.."
baseline=abi/libraggedvit.abi
newest() { compgen -c "$1-" | grep -xE "$1-[0-9]+" | sort -t- -k"$2"n | tail -1 || true; } # $2: the field of the version
if [ "${1:-}" = exports ]; then
    nm=$(newest llvm-nm 3) readobj=$(newest llvm-readobj 3)
    case $2 in
    *.dll) exported=$("$readobj" --coff-exports "$2" | sed -n 's/^ *Name: \(.\)/\1/p' | grep -vxF "$(basename "$2")") ;;
    *.dylib) exported=$("$nm" -gUj "$2" | sed 's/^_//') ;;
    *) exported=$("$nm" -Dj --defined-only "$2" | sed '/^RAGGEDVIT_/d; s/@.*//') ;;
    esac
    diff <(python3 tools/abi_layout.py $baseline --functions | sort) <(sort -u <<<"$exported") >&2 ||
        { echo "abi: $2 does not export the functions of $baseline (<: missing, >: not public)"; exit 1; }
    echo "abi: $2 exports the functions of $baseline"
    exit
fi
command -v abidiff >/dev/null || { echo "abi: skipped: abidiff is not here (Debian: abigail-tools)"; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The public functions do not depend on the backends that are built.
cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DRVIT_VULKAN=OFF -DRVIT_CUDA=OFF -DRVIT_TESTS=OFF -DRVIT_TOOLS=OFF \
    -DRVIT_BENCH=OFF -DRVIT_EXAMPLES=OFF >/dev/null
cmake --build "$work/build" --target raggedvit >/dev/null
# Leave out types that no header declares, and line numbers, so that a comment does not change the file.
abidw --headers-dir "$PWD/include" --drop-private-types --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs \
    --no-elf-needed --no-parameter-names --no-write-default-sizes --type-id-style hash \
    --out-file "$work/new.abi" "$work/build/libraggedvit.so"
sed -i -E "s%path='[^']*/((core|backend_[a-z]*|include)/)%path='\1%; s%path='[^']*/build/%path='%" "$work/new.abi"
if [ "${1:-}" = --write ]; then
    mkdir -p "$(dirname $baseline)"
    cp "$work/new.abi" $baseline
    echo "abi: wrote $baseline"
    exit 0
fi
clang=$(newest clang 2)
if [ -n "$clang" ]; then
    python3 tools/abi_layout.py $baseline >"$work/layout.h"
    for target in x86_64-linux-gnu aarch64-linux-gnu s390x-linux-gnu aarch64-linux-android28 x86_64-windows-gnu x86_64-pc-windows-msvc \
        arm64-apple-macos11; do
        for language in c c++; do
            "$clang" --target=$target -x $language -ffreestanding -nostdlibinc -Iinclude -Wall -Wextra -Werror -fsyntax-only \
                "$work/layout.h" ||
                { echo "abi: the headers' layout on $target differs from $baseline (see above)"; exit 1; }
        done
    done
    echo "abi: the same layout on Linux (x86-64, aarch64, s390x), Android, Windows and macOS, in C and C++"
else
    echo "abi: layouts of other systems not checked: clang is not here"
fi
soname() { sed -n "s/.*soname='\([^']*\)'.*/\1/p" "$1" | head -1; }
# A suppression for each struct whose new fields follow all the old ones. abidiff's own has_data_member_inserted_at = end also matches
# structs without new fields, so it would hide changed ones.
python3 - $baseline "$work/new.abi" >"$work/allowed" <<'EOF'
import sys
import xml.etree.ElementTree as xml

def structs(path):
    found = xml.parse(path).getroot().iter("class-decl")
    return {s.get("name"): [(m.get("layout-offset-in-bits"), *sorted(m[0].attrib.items())) for m in s.iter("data-member")] for s in found}

old, new = (structs(path) for path in sys.argv[1:])
for name, fields in old.items():
    if len(new.get(name, [])) > len(fields) and new[name][: len(fields)] == fields:
        print(f"[suppress_type]\ntype_kind = struct\nname = {name}")
EOF
status=0
abidiff --no-added-syms --suppressions "$work/allowed" $baseline "$work/new.abi" || status=$?
if [ $status = 0 ]; then
    echo "abi: compatible with $baseline ($(soname $baseline))"
elif [ $((status & 3)) != 0 ]; then
    echo "abi: abidiff failed ($status)"
    exit 1
elif [ "$(soname $baseline)" != "$(soname "$work/new.abi")" ]; then
    echo "abi: $(soname "$work/new.abi") after $(soname $baseline) may differ; write the new baseline with tools/abi.sh --write"
    exit 1
else
    echo "abi: programs built with $(soname $baseline) would break: see above"
    exit 1
fi
