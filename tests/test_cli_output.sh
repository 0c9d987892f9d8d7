#!/bin/bash
# Tests output files of the command line tool, on the CPU: only regular files, written completely or not at all, with unchanged modes.
# usage: test_cli_output.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"
small=$folder/from/model.safetensors
limit=60 # opening a pipe may wait for ever
mkdir "$folder/from"
cp "$tests/data/reference/model.safetensors" "$tests/data/reference/config.json" "$folder/from"
chmod 644 "$folder/from"/*
black=$folder/black.png
base64 -d >"$black" <<<iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12NgYGAAAAAEAAEnNCcKAAAAAElFTkSuQmCC
yes black.png | head -10 >"$folder/ten.txt"

# Each option that writes a file, and the exit code if writing fails.
variants="output features overlay"
write() { # CODE WAY FILE
    if [ "$2" = output ]; then
        expect "$1" quantize "$small" --output "$3"
    else
        expect "$1" classify "$small" "$folder/ten.txt" --backend cpu --mean 0 --std 1 --prune l2 --blocks 1 --quiet --"$2" "$3"
    fi
}
fails() { # WAY FILE REASON
    write "$([ "$1" = overlay ] && echo 1 || echo 5)" "$1" "$2"
    err "^raggedvit: .*: $3"
}
only() { # FILE...: checks that the folder of the outputs has only these files
    [ "$(ls -A "$to" | tr '\n' ' ')" = "$*${*:+ }" ] || fail "in the folder: $(ls -A "$to" | tr '\n' ' ') ($what)"
}
to=$folder/to
renew() { rm -rf "$to" && mkdir "$to"; }

for variant in $variants; do
    renew
    mkdir "$to/dir"
    mkfifo "$to/fifo"
    echo precious >"$to/kept"
    ln -s kept "$to/link"
    ln -s nowhere "$to/lost"
    all="dir fifo kept link lost"
    mknod "$to/null" c 1 3 2>/dev/null && all="$all null" && fails $variant "$to/null" 'is a device or a socket, which is not written to'
    fails $variant "$to/dir" 'is a folder, not a file'
    fails $variant "$to/fifo" 'is a pipe, which is not written to'
    fails $variant "$to/link" 'is a symbolic link, which is not replaced'
    fails $variant "$to/lost" 'is a symbolic link, which is not replaced'
    # shellcheck disable=SC2086
    only $all
    [ -p "$to/fifo" ] && [ -L "$to/link" ] && [ ! -e "$to/lost" ] && [ "$(cat "$to/kept")" = precious ] ||
        fail "the old file has changed ($what)"

    # New files have the mode of the umask, and replaced files the same mode as before.
    renew
    echo victim >"$folder/victim"
    ln -s "$folder/victim" "$to/new.part"
    (umask 027 && write 0 $variant "$to/new" && exit $failures)
    failures=$?
    [ "$(stat -c %a "$to/new")" = 640 ] || fail "a new file's mode is $(stat -c %a "$to/new") ($what)"
    [ "$(cat "$folder/victim")" = victim ] || fail "the target of the link new.part was written ($what)"
    rm "$to/new.part"
    for mode in 400 640 604; do
        cp "$to/new" "$to/old"
        echo old >"$to/old"
        chmod $mode "$to/old"
        write 0 $variant "$to/old"
        [ "$(stat -c %a "$to/old")" = $mode ] || fail "the mode $mode has become $(stat -c %a "$to/old") ($what)"
        cmp -s "$to/new" "$to/old" || fail "the replaced file differs from the new one ($what)"
        rm "$to/old"
    done
    rm -f "$to/config.json"
    only new

    # With a limit on file sizes, the message has the reason, and the file does not change.
    renew
    echo old >"$to/old"
    (ulimit -f 1 && fails $variant "$to/old" 'cannot be written: File too large' && exit $failures)
    failures=$?
    only old
    [ "$(cat "$to/old")" = old ] || fail "a file that could not be written is missing ($what)"
done

# A full disk, if this user may mount one.
full() {
    mount -t tmpfs -o size=4k none "$to" || exit 1
    echo old >"$to/old" # uses the only block
    for variant in $variants; do
        fails "$variant" "$to/new" 'cannot be written: No space left on device'
        only old
    done
    exit $failures
}
renew
if unshare -rm mount -t tmpfs none "$to" 2>/dev/null; then
    export -f full fails write expect err only fail
    export variants to folder failures tool small
    unshare -rm bash -c 'set -u; full'
    failures=$?
else
    echo "no full disk: a mount is not permitted"
fi

# Signals leave no temporary file. The command waits for frames with its output file open.
renew
mkfifo "$folder/frames"
exec 8<>"$folder/frames"
set -m # SIGINT is ignored otherwise
for signal in HUP INT PIPE QUIT TERM; do
    what="SIG$signal"
    "$tool" classify "$small" - --size 8x8 --format rgb24 --backend cpu --mean 0 --std 1 --features "$to/new" <&8 \
        >"$folder/out" 2>"$folder/err" &
    for ((i = 0; i < 600; i++)); do
        [ -n "$(ls -A "$to")" ] && break
        sleep 0.05
    done
    [ -n "$(ls -A "$to")" ] || fail "no file was opened ($what)"
    kill -s $signal $!
    wait $! 2>/dev/null
    [ $? -eq $((128 + $(kill -l $signal))) ] || fail "the signal did not end the tool ($what)"
    only
done
set +m

# Files next to a model are not written through a symbolic link.
renew
ln -s "$folder/elsewhere" "$to/config.json"
write 0 output "$to/new"
[ ! -e "$folder/elsewhere" ] || fail "config.json was written through a link"
only config.json new

# Output that cannot be written.
if [ -w /dev/full ]; then
    "$tool" policies >/dev/full 2>"$folder/err"
    [ $? -eq 5 ] || fail "a full disk is not detected"
    for arguments in --help help --version "classify --help" "devices" "devices --json" "inspect $model" \
        "classify $model $cat --backend cpu --json" "verify $model --backend cpu --limit 1 --json" \
        "classify $model $cat $folder/missing.png --backend cpu"; do
        # shellcheck disable=SC2086
        "$tool" $arguments >/dev/full 2>"$folder/err"
        [ $? -eq 5 ] || fail "a full disk is not detected by $arguments"
        err "^raggedvit: standard output cannot be written$"
    done
fi
# The exit code keeps an earlier error unless a later one is more severe.
run 1 "$sheet" --tiles 32 --limit 4 --batch 2 --overlay "$folder/no/such.png" --features "$folder/features.npy" --json
err "such.png: cannot be written"
json exit_code 1
json images 4
[ "$(wc -c <"$folder/features.npy")" -eq $((128 + 4 * 4 * 192)) ] || fail "the features after a failing overlay"
run 1 "$cat" --overlay "$folder/no/such.png" --features "$folder/features.npy"
out '^features '
! grep -q '^overlay ' "$folder/out" || fail "the output names an overlay that was not written"
run 5 "$cat" --overlay "$folder/no/such.png" --features "$folder/no/such.npy" --json
run 5 "$cat" --features "$folder/no/such.npy"
! grep -q '^features ' "$folder/out" || fail "the output names features that were not written"
# An output file is never opened in place of a closed standard stream.
"$tool" classify "$model" "$cat" --backend cpu --features "$folder/features.npy" >&- 2>"$folder/err"
[ $? -eq 5 ] || fail "closed standard output is not detected"
[ "$(wc -c <"$folder/features.npy")" -eq $((128 + 4 * 192)) ] || fail "the features contain printed text"
finish
