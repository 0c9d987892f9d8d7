# Checks that every stack frame of the library has a known size of at most 8 KiB: threads may have 64 KiB (status.h).
#
# usage: sh stack_frames.sh BUILD_DIR (compiled with -fstack-usage)
most=8192
found=$(find "$1" -path '*raggedvit_objects.dir*' -name '*.su')
[ -n "$found" ] || { echo "skipped: this compiler writes no stack usage (-fstack-usage)"; exit 77; }
bad=$(echo "$found" | tr '\n' '\0' | xargs -0 awk -F '\t' -v most=$most '$2 > most || $3 == "dynamic" {print $1 ": " $2 " bytes, " $3}')
if [ -n "$bad" ]; then
    echo "stack frames above $most bytes, or of unknown size:"
    echo "$bad"
    exit 1
fi
echo "$(echo "$found" | wc -l) files, the largest frame:"
echo "$found" | tr '\n' '\0' | xargs -0 awk -F '\t' '$2 + 0 > most {most = $2 + 0; line = $0} END {print line}'
