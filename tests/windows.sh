#!/bin/bash
# Tests the library and the tool for Windows under wine, and compares the tool with the one for this machine.
# usage: windows.sh PREFIX EXAMPLES LINUX_TOOLS FOLDER
#   PREFIX/bin has raggedvit.exe, EXAMPLES attention.exe, LINUX_TOOLS raggedvit and json_get; wine's own files go to FOLDER/wine.
set -u
prefix=$(realpath "$1")
examples=$(realpath "$2")
linux=$(realpath "$3")
root=$(cd "$(dirname "$0")/.." && pwd)
data=$root/examples/data
model=$data/deit_tiny_cifar10.safetensors
cat=$data/chelsea.png
sheet=$data/cifar10_test_1000.png
folder=$(realpath -m "$4")/test
wine=$(command -v /usr/lib/wine/wine64 wine64 wine | head -1)
export LC_ALL=C.UTF-8 # wine takes names of files and arguments by it
export WINEPREFIX=${folder%/test}/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" WINEPATH="Z:${prefix//\//\\}\\bin"
unset DISPLAY RVIT_LOG
failures=0
rm -rf "$folder"
mkdir -p "$folder/bin"

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}
since=$(date +%s%N)
done_with() {
    local now
    now=$(date +%s%N)
    printf '%-42s %5.1f s\n' "$1" "$(((now - since) / 100000000))e-1"
    since=$now
}
windows() { timeout 300 "$wine" "$prefix/bin/raggedvit.exe" "$@"; }

server=$(command -v /usr/lib/wine/wineserver64 /usr/lib/wine/wineserver wineserver | head -1)
mkdir -p "$WINEPREFIX"
"$server" -p # it stays, so that the programs start faster
trap '"$server" -k' EXIT
"$wine" wineboot -i >/dev/null 2>&1 || fail "wine cannot start"
done_with "wine"

# same CODE ARGUMENT...: both tools must return the code, and say the same on both streams, or in JSON the same logits and kept tokens.
same() {
    local wanted=$1 code
    shift
    what="$*"
    "$linux/raggedvit" "$@" >"$folder/linux.out" 2>"$folder/linux.err" <"${input:-/dev/null}"
    code=$?
    [ $code = "$wanted" ] || fail "exit code $code on this system, expected $wanted ($what)"
    windows "$@" >"$folder/windows.out" 2>"$folder/windows.err" <"${input:-/dev/null}"
    code=$?
    [ $code = "$wanted" ] || { fail "exit code $code, expected $wanted ($what)"; head -5 "$folder/windows.err"; }
    cmp -s "$folder/linux.err" "$folder/windows.err" ||
        { fail "other messages ($what)"; diff "$folder/linux.err" "$folder/windows.err" | head -6; }
    if [ -s "$folder/linux.out" ] && [[ " $what " == *" --json "* ]]; then
        python3 - "$folder/linux.out" "$folder/windows.out" <<'END' || fail "other results ($what)"
import json, sys

linux, windows = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
assert [i["file"] for i in linux["images"]] == [i["file"] for i in windows["images"]], "files"
assert len(linux["images"]) > 0 and linux["failed"] == windows["failed"], "failures"
largest = 0
for a, b in zip(linux["images"], windows["images"]):
    assert a.get("kept") == b.get("kept") and a["tokens_kept"] == b["tokens_kept"], f"kept tokens of {a['file']}"
    largest = max([largest] + [abs(x - y) for x, y in zip(a["logits"], b["logits"], strict=True)])
assert largest <= 1e-5, f"logits differ by {largest}"
print(f"{len(linux['images'])} images: logits differ by at most {largest:.1e}")
END
    elif [[ $what != *--json* ]]; then
        cmp -s "$folder/linux.out" "$folder/windows.out" || fail "other output ($what)"
    fi
}

# The library
(cd "$folder" && "$wine" "$prefix/bin/msvc_version.exe") || fail "a program linked by lld-link with raggedvit.lib"
(cd "$folder" && "$wine" "$examples/attention.exe" >"$folder/attention" 2>&1) || { fail "examples/attention"; cat "$folder/attention"; }
done_with "a program of Microsoft's ABI, an example"

# The demo, in float32
same 0 --version
same 0 --help
same 0 policies
same 0 classify "$model" "$cat" --backend cpu --json
same 0 classify "$model" "$cat" --backend cpu --json --prune evit --keep 0.7
done_with "the photo"
same 0 classify "$model" "$sheet" --tiles 32 --expect "$data/cifar10_test_1000.txt" --limit 100 --backend cpu --json
same 0 classify "$model" "$sheet" --tiles 32 --expect "$data/cifar10_test_1000.txt" --limit 100 --backend cpu --json --prune l2 --keep 0.5
done_with "100 tiles, dense and pruned"

# Invalid input: the sentences and the exit codes
head -c 100000 "$model" >"$folder/short.safetensors"
head -c 20000 "$cat" >"$folder/short.png"
mkdir "$folder/empty"
echo text >"$folder/text.png"
same 2
same 2 nonsense
same 2 classify "$model" "$cat" --nonsense
same 2 classify "$model" "$cat" --top x
same 4 classify "$folder/none.safetensors" "$cat" --backend cpu
same 4 inspect "$folder/empty"
same 4 inspect "$folder/short.safetensors"
same 4 inspect "$cat/below"
same 4 classify "$model" "$folder/none.png" "$folder/short.png" "$folder/text.png" "$folder/empty/x/y" --backend cpu --quiet
same 4 classify "$model" "$folder/empty" --backend cpu
same 4 merge "$folder/none.json"
same 4 merge "$folder/empty"
same 5 classify "$model" "$cat" --backend cpu --quiet --features "$folder/none/x.npy"
same 5 classify "$model" "$cat" --backend cpu --quiet --features "$folder/empty"
same 3 classify "$model" "$cat" --backend cpu --device 7
cp "$root/tests/data/reference/"{model.safetensors,config.json} "$folder"
ln "$folder/model.safetensors" "$folder/linked.safetensors"
same 2 quantize "$folder/model.safetensors" --output "$folder/linked.safetensors" # the same file by another name
printf '\xff.png\n' >"$folder/list.txt"
windows classify "$model" "$folder/list.txt" --backend cpu >/dev/null 2>"$folder/windows.err"
grep -q '\\xff.png: cannot be read: the path is not valid UTF-8$' "$folder/windows.err" ||
    { fail "a path that is not UTF-8"; cat "$folder/windows.err"; }
done_with "invalid input"

# Names with umlauts and emoji; output in an existing file
odd=$folder/größe\ 😀
mkdir "$odd"
cp "$model" "$odd/modell ü.safetensors"
cp "$cat" "$odd/bär 🐻.png"
cp "$cat" "$odd/no ending ß"
echo old >"$odd/öut.npy"
same 0 classify "$odd/modell ü.safetensors" "$odd" --backend cpu --json --features "$odd/öut.npy"
grep -aq NUMPY "$odd/öut.npy" || fail "an existing file is not replaced"
cp "$odd/öut.npy" "$folder/features.npy"
windows quantize "$odd/modell ü.safetensors" --output "$odd/8 bit ½.safetensors" >/dev/null || fail "quantize"
same 0 classify "$odd/8 bit ½.safetensors" "$odd/bär 🐻.png" --backend cpu --json
windows classify "$folder/short.safetensors" "$cat" --backend cpu --features "$odd/öut.npy" >/dev/null 2>&1 && fail "a broken model"
cmp -s "$odd/öut.npy" "$folder/features.npy" || fail "a failed run has changed a file"
[ "$(find "$folder" -name '.raggedvit-*' | wc -l)" = 0 ] || fail "temporary files are left"
long=$folder/$(printf 'x%.0s' {1..120})/$(printf 'y%.0s' {1..120})/
mkdir -p "$long"
cp "$cat" "$long/long.png"
same 0 classify "$model" "$long" --backend cpu --json # more than 260 characters
back="Z:${odd//\//\\}\\"
windows classify "${back}modell ü.safetensors" "${back}bär 🐻.png" --backend cpu --overlay "${back}kept.png" --prune l2 --quiet \
    >/dev/null 2>&1 && [ -s "$odd/kept.png" ] || fail "paths with backslashes"
windows bench --shape tiny --batches 1 --seconds 0.1 --backend cpu >/dev/null || fail "random weights"
done_with "names, output files"

# Frames in a pipe: the bytes of a file, which have line ends and control characters
head -c $((3 * 80 * 60 * 4)) "$model" >"$folder/frames"
LC_ALL=C grep -qa $'\r' "$folder/frames" && LC_ALL=C grep -qa $'\x1a' "$folder/frames" || fail "the frames lack bytes that text has"
frames=(classify "$model" - --size 80x60 --format rgb24 --backend cpu --json)
input=$folder/frames same 0 "${frames[@]}"
cp "$folder/windows.out" "$folder/file.out"
(head -c 20000 "$folder/frames"; sleep 0.5; tail -c +20001 "$folder/frames") | windows "${frames[@]}" 2>&1 | cat >"$folder/windows.out"
logits() { grep -o '"logits": \[[^]]*\]' "$1"; }
[ "$(logits "$folder/file.out" | wc -l)" = 4 ] && cmp -s <(logits "$folder/file.out") <(logits "$folder/windows.out") ||
    fail "frames in a pipe differ from those in a file"
head -c 20000 "$folder/frames" >"$folder/frame"
input=$folder/frame same 1 classify "$model" - --size 80x60 --format rgb24 --backend cpu --json
done_with "frames in a pipe"

# A suite of this machine's tool
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$wine" "$prefix/bin/raggedvit.exe" >"$folder/bin/raggedvit"
chmod +x "$folder/bin/raggedvit"
cp "$linux"/json_get "$folder/bin"
bash "$root/tests/test_cli_failures.sh" "$folder/bin/raggedvit" "$data" "$folder" || fail "test_cli_failures.sh"
done_with "test_cli_failures.sh"

# Vulkan: winevulkan on Mesa's software driver
screen=$(mktemp)
Xvfb -displayfd 3 -screen 0 640x480x24 3>"$screen" 2>/dev/null &
xvfb=$!
for _ in $(seq 50); do [ -s "$screen" ] || sleep 0.1; done
export DISPLAY=:$(cat "$screen") VK_ICD_FILENAMES=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json | head -1)
windows classify "$model" "$cat" --backend vulkan --json >"$folder/windows.out" 2>"$folder/windows.err" ||
    { fail "Vulkan"; cat "$folder/windows.err"; }
"$linux/raggedvit" classify "$model" "$cat" --backend cpu --json >"$folder/linux.out"
python3 - "$folder/linux.out" "$folder/windows.out" <<'END' || fail "Vulkan's results"
import json, sys

cpu, vulkan = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
difference = max(abs(x - y) for x, y in zip(cpu["images"][0]["logits"], vulkan["images"][0]["logits"], strict=True))
print(vulkan["run"]["device"] if "run" in vulkan else vulkan["device"], f"differs from the CPU by {difference:.1e}")
assert difference < 1e-4
END
kill $xvfb
done_with "Vulkan"

[ $failures = 0 ] || { echo "$failures failed"; exit 1; }
echo "all passed"
