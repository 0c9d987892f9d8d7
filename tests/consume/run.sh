#!/usr/bin/env bash
# usage: run.sh HOW SOURCE BUILD
# Builds other programs with the library, which was built in BUILD from SOURCE. HOW is find_package, pkg-config, build-tree,
# add_subdirectory or FetchContent. CMAKE, CC, CXX (empty: only C), CFLAGS and CXXFLAGS come from the environment. Exits
# with 77 if a tool is missing.
set -euo pipefail
how=$1 source=$2 build=$3
here=$source/tests/consume
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "consume: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
languages=C
[ -z "${CXX:-}" ] || languages='C;CXX'
strict="-Wall -Wextra -Wpedantic -Werror"

# Checks that no program or library below the folder searches the current folder for libraries.
check_run_paths() { sh "$source/tests/check_runpath.sh" "$1" || fail "a run path leads to the current folder"; }

# Installs into a prefix and moves it: no installed file may contain the old prefix or the build folder.
install_moved() {
    "$CMAKE" --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; fail "cmake --install failed"; }
    prefix="$work/a prefix" # pkg-config must quote it
    mv "$work/first" "$prefix"
    if grep -rlF -e "$build" -e "$source" -e "$work/first" "$prefix" --include='*.cmake' --include='*.pc'; then
        fail "these installed files name the build, the source or the first prefix"
    fi
    library=$(dirname "$(find "$prefix" -name libraggedvit.so)")
    check_run_paths "$prefix"
    if [ -e "$build/tools/raggedvit" ]; then
        "$prefix/bin/raggedvit" devices >/dev/null || fail "the installed tool does not run"
    fi
    export PKG_CONFIG_PATH=$library/pkgconfig
}

# flags OPTIONS...: sets the array flags to pkg-config's output, split as a shell does.
flags() { eval "flags=($(pkg-config "$@" raggedvit))"; }

# needs_shared PROGRAM yes|no: checks whether the program is linked with the shared library.
needs_shared() {
    local found=no
    ! readelf -d "$1" | grep -q 'NEEDED.*libraggedvit\.so\.0' || found=yes
    [ "$found" = "$2" ] || fail "$1 needs libraggedvit.so.0.4: $found, expected $2"
}

# A plugin that is linked with the archive must neither export the library's functions nor need them.
check_plugin() {
    nm -D --defined-only "$1" | grep -q ' plugin_version$' || fail "nm finds nothing in $1"
    ! nm -D "$1" | grep ' rvit_' || fail "$1 exports or lacks these functions"
}

# cmake_project NAME LANGUAGES OPTIONS...: configures, builds and runs tests/consume/CMakeLists.txt.
cmake_project() {
    local folder=$work/$1 names="" language
    "$CMAKE" -S "$here" -B "$folder" "-DLANGUAGES=$2" "${@:3}" >"$work/log" 2>&1 || { cat "$work/log"; fail "configuring failed"; }
    ! grep -n "CMake Warning" "$work/log" || { cat "$work/log"; fail "configuring warns"; }
    "$CMAKE" --build "$folder" --parallel 2 >"$work/log" 2>&1 || { cat "$work/log"; fail "building failed"; }
    ! grep -n "warning:" "$work/log" || fail "building warns"
    [[ ";$2;" != *";C;"* ]] || names="c"
    [[ ";$2;" != *";CXX;"* ]] || names="$names cxx"
    for language in $names; do
        "$folder/${language}_shared"
        "$folder/${language}_static"
        needs_shared "$folder/${language}_shared" yes
        needs_shared "$folder/${language}_static" no
    done
    [[ ";$2;" != *";C;"* ]] || check_plugin "$folder/libplugin.so"
    # The programs must be compiled with their own project's options, not with the library's.
    if grep '"command"' "$folder/compile_commands.json" | grep -E 'program\.c(pp)? ' |
        grep -E -e '-W[a-z]|-ffp-contract|-fno-fast-math|-fvisibility|RVIT_|_GNU_SOURCE'; then
        fail "the library's options have leaked into the program's"
    fi
}

# compile OUTPUT FLAGS...: compiles program.c as C99 and program.cpp as C++17 with these flags, and runs them.
compile() {
    local output=$1
    shift
    # shellcheck disable=SC2086
    $CC -std=c99 $strict ${CFLAGS:-} -o "$output.c" "$here/program.c" "$@" && "$output.c"
    [ -z "${CXX:-}" ] || { $CXX -std=c++17 $strict ${CXXFLAGS:-} -o "$output.cxx" "$here/program.cpp" "$@" && "$output.cxx"; }
}

# Builds the project of docs/using.md, with an example as its main.c.
documented_project() {
    mkdir "$work/app"
    cp "$here/documented/CMakeLists.txt" "$work/app"
    cp "$source/examples/attention.c" "$work/app/main.c"
    while IFS= read -r line; do
        grep -qxF -- "$line" "$source/docs/using.md" || fail "docs/using.md lacks the line: $line"
    done <"$here/documented/CMakeLists.txt"
    "$CMAKE" -S "$work/app" -B "$work/app/build" "-DCMAKE_PREFIX_PATH=$prefix" >/dev/null
    "$CMAKE" --build "$work/app/build" >/dev/null
    "$work/app/build/my_app"
}

case $how in
find_package)
    install_moved
    cmake_project both "$languages" -DRVIT_HOW=find_package "-DCMAKE_PREFIX_PATH=$prefix"
    [ "$languages" = C ] || cmake_project only_cxx CXX -DRVIT_HOW=find_package "-DCMAKE_PREFIX_PATH=$prefix"
    documented_project
    ;;
pkg-config)
    command -v pkg-config >/dev/null || skip "pkg-config is not installed"
    # Nix and Guix set absolute folders.
    "$CMAKE" -S "$source" -B "$work/absolute" -DCMAKE_INSTALL_PREFIX=/opt/out -DCMAKE_INSTALL_LIBDIR=/opt/lib/lib \
        -DCMAKE_INSTALL_INCLUDEDIR=/opt/dev/include -DRVIT_{CUDA,VULKAN,TESTS,TOOLS,BENCH,EXAMPLES,PYTHON,TRITON}=OFF >"$work/log" ||
        { cat "$work/log"; fail "configuring failed"; }
    flags=$(pkg-config --cflags --libs "$work/absolute/raggedvit.pc" | xargs)
    [ "$flags" = "-I/opt/dev/include -L/opt/lib/lib -lraggedvit" ] || fail "pkg-config prints $flags for absolute folders"
    install_moved
    flags --cflags --libs
    LD_LIBRARY_PATH=$library compile "$work/shared" "${flags[@]}"
    ! pkg-config --static --libs raggedvit | grep -q jansson || fail "a user of the library is made to link jansson"
    rm "$library"/libraggedvit.so*
    flags --cflags --static --libs
    compile "$work/static" "${flags[@]}"
    # shellcheck disable=SC2086
    $CC ${CFLAGS:-} -shared -fPIC -o "$work/libplugin.so" "$here/plugin.c" "${flags[@]}"
    check_plugin "$work/libplugin.so"
    ;;
build-tree)
    cmake_project both "$languages" -DRVIT_HOW=find_package "-DCMAKE_PREFIX_PATH=$build"
    command -v pkg-config >/dev/null || exit 0
    export PKG_CONFIG_PATH=$build
    flags --cflags --libs
    LD_LIBRARY_PATH=$build compile "$work/uninstalled" "${flags[@]}"
    ;;
add_subdirectory)
    # The library is compiled with the parent's flags, but must give the same results.
    cmake_project parent "$languages" "-DRVIT_HOW=$how" "-DRVIT_SOURCE=$source" "-DCMAKE_C_FLAGS=-O2 -ffast-math" -DRVIT_VULKAN=OFF \
        -DRVIT_CUDA=OFF -DRVIT_DOXYGEN=/bin/true -DCMAKE_UNITY_BUILD=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
    "$CMAKE" --install "$work/parent" --prefix "$work/prefix" >/dev/null
    [ ! -e "$work/prefix" ] || fail "the parent installs $(find "$work/prefix" -type f)"
    ;;
FetchContent)
    "$CMAKE" -S "$here/export_set" -B "$work/mylib" "-DRVIT_SOURCE=$source" -DRVIT_VULKAN=OFF -DRVIT_CUDA=OFF >"$work/log" 2>&1 &&
        "$CMAKE" --build "$work/mylib" --parallel 2 >>"$work/log" 2>&1 &&
        "$CMAKE" --install "$work/mylib" --prefix "$work/prefix" >>"$work/log" || { cat "$work/log"; fail "mylib is not installed"; }
    grep -q 'CPACK_PACKAGE_NAME "mylib"' "$work/mylib/CPackConfig.cmake" || fail "the package is not the parent's"
    "$CMAKE" -S "$here/export_set/user" -B "$work/user" "-DCMAKE_PREFIX_PATH=$work/prefix" >"$work/log" 2>&1 &&
        "$CMAKE" --build "$work/user" >>"$work/log" 2>&1 || { cat "$work/log"; fail "a user of mylib cannot be built"; }
    "$work/user/user"
    ;;
*)
    fail "unknown: $how"
    ;;
esac
