# Functions for the tests of the command line tool, which source this file with the arguments RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER.
# json_get is in the folder of RAGGEDVIT.
set -u
# Short paths without spaces, because the tests split lists of arguments at spaces.
short=$(mktemp -d /tmp/raggedvit-cli.XXXXXX) || exit 1
ln -s "$(dirname "$(realpath "$1")")" "$short/bin"
ln -s "$(realpath "$2")" "$short/data"
ln -s "$(realpath "$3")" "$short/tmp"
ln -s "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" "$short/tests"
tool=$short/bin/$(basename "$(realpath "$1")")
data=$short/data
tests=$short/tests
folder=$short/tmp/cli.$$
json_get=$(dirname "$tool")/json_get
model=$data/deit_tiny_cifar10.safetensors
sheet=$data/cifar10_test_1000.png
cat=$data/chelsea.png
failures=0
unset RVIT_LOG

mkdir -p "$folder" || exit 1
trap 'rm -rf "$folder" "$short"' EXIT
[ -x "$json_get" ] || { echo "no json_get next to $tool"; exit 1; }

fail() {
    echo "FAIL: $1"
    sed 's/^/    out: /' "$folder/out" | head -20
    sed 's/^/    err: /' "$folder/err" | head -20
    failures=$((failures + 1))
}

# expect CODE ARGUMENT...: runs the tool, for at most $limit seconds.
expect() {
    local wanted=$1 code
    shift
    what="$*"
    timeout "${limit:-600}" "$tool" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    code=$?
    [ $code -eq "$wanted" ] || fail "exit code $code, expected $wanted: $what"
}
out() { grep -qE -- "$1" "$folder/out" || fail "not in the output: $1 ($what)"; }
err() { grep -qE -- "$1" "$folder/err" || fail "not in the messages: $1 ($what)"; }
no_out() { [ ! -s "$folder/out" ] || fail "unexpected output ($what)"; }
# Checks that the output has no control characters, also in UTF-8, and none that change the direction of text.
printable() {
    ! LC_ALL=C grep -qaP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]' \
        "$folder/out" "$folder/err" || fail "control characters ($what)"
}
no_err() { [ ! -s "$folder/err" ] || fail "unexpected messages ($what)"; }
# json PATH PATTERN: checks that the value at the path matches.
json() {
    local value
    value=$("$json_get" "$1" <"$folder/out") || { fail "no JSON, or no $1 ($what)"; return; }
    [[ $value =~ ^($2)$ ]] || fail "$1 is '$value', expected '$2' ($what)"
}
run() { expect "$1" classify "$model" "${@:2}" --backend cpu; }

finish() {
    if [ $failures -gt 0 ]; then
        echo "$failures failed"
        exit 1
    fi
    echo "all passed"
}
