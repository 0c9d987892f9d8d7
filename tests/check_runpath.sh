#!/bin/sh
# usage: check_runpath.sh FOLDER...
# Checks that the run paths of all programs and shared libraries below the folders are absolute or relative to $ORIGIN. The dynamic linker
# resolves other entries in the current folder, where anybody could place a library.
set -eu
failed=0
for folder; do
    list=$(find "$folder" -type f \( -perm -100 -o -name '*.so*' \) -exec sh -c 'readelf -W -d "$@" /dev/null' - {} + 2>/dev/null |
        awk '/^File: / {file = substr($0, 7)} /^Dynamic section/ {print "dynamic", file}
             /\((RPATH|RUNPATH)\)/ {sub(/^[^[]*\[/, ""); sub(/\][^]]*$/, ""); print "path", file "\t" $0}')
    n=$(printf '%s\n' "$list" | grep -c '^dynamic' || true)
    [ "$n" -ge 1 ] || { echo "$folder: readelf finds no program and no shared library"; failed=1; }
    bad=$(printf '%s\n' "$list" | sed -n 's/^path //p' | awk -F '\t' '{
        n = split($2 ":", entries, ":")
        for (i = 1; i < n; i++)
            if (entries[i] !~ /^(\/|\$ORIGIN(\/|$)|\$\{ORIGIN\}(\/|$))/) {
                print $1 ": run path [" $2 "] has the entry \"" entries[i] "\""
                break
            }
    }')
    [ -z "$bad" ] || { echo "$bad"; failed=1; }
    echo "$folder: $n programs and shared libraries"
done
exit $failed
