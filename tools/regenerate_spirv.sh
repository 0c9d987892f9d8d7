#!/usr/bin/env bash
# Compiles the shaders of the matrix tier to the SPIR-V in shaders/spirv, for machines whose glslang lacks GL_KHR_cooperative_matrix.
#   regenerate_spirv.sh [GLSLANG...]           write the files; GLSLANG is a command, such as `tools/newer_vulkan.sh run DIR glslang`
#   regenerate_spirv.sh --check [GLSLANG...]   write nothing; fail if the shaders have changed since the files were written, or if GLSLANG
#                                              has the version that wrote them and its output differs
set -euo pipefail
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=1; shift; fi
[ $# -gt 0 ] || set -- "$(command -v glslangValidator || command -v glslang || echo glslang)"
kept=shaders/spirv

# Checksums of the inputs: the shaders, their includes, and their lines in variants.txt.
sources() {
    sed -nE '/^[a-z0-9_]+_matrix +/p' shaders/variants.txt | sha256sum | sed 's/-$/variants.txt/'
    (cd shaders && sha256sum attention_matrix.comp attention_rows.comp linear_matrix.comp linear_direct_matrix.comp \
        common/{activate,attention,group,linear,linear_vec8,math,matrix,matrix_rows,seqlens,storage}.glsl common/interface.h)
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$@" --version 2>/dev/null | head -1) || version=
sources > "$work/sources.sha256"
if [ -n "$check" ]; then
    if ! diff "$kept/sources.sha256" "$work/sources.sha256"; then
        echo "shaders/spirv is older than the shaders: run tools/regenerate_spirv.sh" >&2
        exit 1
    fi
    if [ "$version" != "$(cat $kept/version)" ]; then
        echo "the sources have not changed; not compiled: '${version:-no glslang}' is not '$(cat $kept/version)'"
        exit 0
    fi
fi
sed -nE '/^[a-z0-9_]+_matrix +/p' shaders/variants.txt | while read -r name source definitions; do
    # shellcheck disable=SC2086
    "$@" --quiet -V --target-env vulkan1.2 -g0 $(printf -- '-D%s ' $definitions) -I"$PWD/shaders" --vn "$name" -o "$work/$name.inc" \
        "$PWD/shaders/$source.comp" > "$work/log" || { cat "$work/log" >&2; exit 1; }
    sed -i 's/[[:space:]]*$//' "$work/$name.inc"
    if [ -n "$check" ]; then
        cmp "$work/$name.inc" "$kept/$name.inc"
    else
        mkdir -p $kept
        cp "$work/$name.inc" $kept/
    fi
done
if [ -n "$check" ]; then
    echo "shaders/spirv matches the output of $version"
else
    cp "$work/sources.sha256" $kept/
    echo "$version" > $kept/version
    echo "written by $version:" && wc -c $kept/*.inc
fi
