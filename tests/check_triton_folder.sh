#!/bin/sh
# usage: check_triton_folder.sh FOLDER
# Checks the folder of the Triton backend: the library exports only the entry points, so that it cannot clash with other libraries of the
# server; its undefined symbols belong to the server; and the folder has all other libraries that it needs.
set -eu
folder=$1 module=$1/libtriton_raggedvit.so
failed=0

exported=$(nm -D --defined-only "$module" | awk '{print $NF}')
n=$(printf '%s\n' "$exported" | grep -c '^TRITONBACKEND_' || true)
[ "$n" -eq 13 ] || { echo "$module exports $n entry points, not 13"; failed=1; }
foreign=$(printf '%s\n' "$exported" | grep -v '^TRITONBACKEND_' || true)
[ -z "$foreign" ] || { echo "$module exports symbols other than TRITONBACKEND_*:"; echo "$foreign"; failed=1; }

undefined=$(nm -D --undefined-only "$module" | awk '$1 == "U" {print $2}')
imported=TRITONSERVER_ErrorNew
printf '%s\n' "$undefined" | grep -q "^$imported\$" || { echo "$module does not import $imported from the server"; failed=1; }
# Symbols of other libraries have a version or come from the folder: libwebp and parts of zlib have no versions.
bundled=$(find "$folder" -name 'lib*.so.*' -exec nm -D --defined-only {} + | awk '{sub("@.*", "", $NF); print $NF}')
foreign=$(printf '%s\n' "$undefined" | grep -v '@' | grep -vE '^(TRITON|__(asan|ubsan|tsan|sanitizer)_)' | grep -vxF "$bundled" || true)
[ -z "$foreign" ] || { echo "$module needs symbols that no library defines:"; echo "$foreign"; failed=1; }

link=$folder/batchstrategy.so
[ "$(readlink "$link")" = libtriton_raggedvit.so ] || { echo "$link is not a link to the module"; failed=1; }
readelf -d "$module" | grep -q 'R.*PATH.*\[\$ORIGIN\]' || { echo "$module does not search its own folder for libraries"; failed=1; }
for binary in "$folder"/lib*.so*; do
    for needed in $(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        case $needed in
        libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libgcc_s.so.* | ld-linux* | lib[aut]*san.so.*) ;;
        *) [ -f "$folder/$needed" ] || { echo "$binary needs $needed, which is not in the folder"; failed=1; } ;;
        esac
    done
done
[ "$failed" -eq 0 ] || exit 1
echo "$n entry points"
