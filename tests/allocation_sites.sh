# Checks that a test makes each allocation site of the library fail: compares the sites in the source with those that the programs reached.
# Needs line numbers in the programs (-g1).
#
# usage: sh allocation_sites.sh SOURCE_DIR "BACKEND..." PROGRAM_DIR
source=$1 backends=$2 programs=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RVIT_TEST_ALLOCATION_SITES="$work/addresses"
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0" # drivers leak

# reached PROGRAM ARGUMENT...
reached() {
    : >"$work/addresses"
    "$@" >"$work/log" 2>&1 || [ $? = 77 ] || grep -q 'no test has that name' "$work/log" || { cat "$work/log"; exit 1; }
    sort -u "$work/addresses" | addr2line -e "$1" | sed 's| (discriminator.*||' | xargs -rd '\n' realpath -m |
        sed "s|^$source/||" >>"$work/reached"
}
folders=core
for program in test_safetensors test_checkpoint test_config test_quantized_tensors test_shards test_pos_embed; do
    reached "$programs/$program"
done
for backend in $backends; do
    folders="$folders backend_$backend"
    for program in test_api test_model "test_$backend" "$backend/test_$backend" "test_${backend}_app"; do
        [ ! -x "$programs/$program" ] || reached "$programs/$program" --backend "$backend" --filter '*every_allocation*'
    done
done
grep -q '^core/.*:[1-9]' "$work/reached" || { echo "skipped: the programs have no line numbers"; exit 77; }

cd "$source" || exit 1
grep -rnE --include='*.c' 'rvit_alloc_(new|array)\(' $folders | grep -v '^core/base/alloc\.c:' | cut -d: -f1,2 |
    sort >"$work/sites"
sort -u "$work/reached" | comm -23 "$work/sites" - >"$work/missed"
echo "$(($(wc -l <"$work/sites") - $(wc -l <"$work/missed"))) of $(wc -l <"$work/sites") allocation sites of $folders made to fail"
[ ! -s "$work/missed" ] || { echo "not made to fail:"; cat "$work/missed"; exit 1; }
