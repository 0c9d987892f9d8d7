#!/usr/bin/env python3
"""Prints the ABI baseline as C: assertions on sizes, offsets and values, to be compiled for any system.

usage: tools/abi_layout.py BASELINE [--functions]    --functions: prints the names of the public functions instead
"""

import pathlib
import sys
import xml.etree.ElementTree as xml

root = xml.parse(sys.argv[1]).getroot()
if "--functions" in sys.argv:
    print("\n".join(symbol.get("name") for symbol in root.iter("elf-symbol")))
    sys.exit()

for header in ("raggedvit", "cuda", "experimental", "vulkan"):
    print(f"#include <raggedvit/{header}.h>")
print("#ifndef __cplusplus\n#define static_assert _Static_assert\n#endif")


headers = "".join(path.read_text() for path in (pathlib.Path(__file__).parents[1] / "include/raggedvit").glob("*.h"))


def check(expression, value):
    print(f'static_assert({expression} == {value}, "{expression} is not {value}");')


for struct in root.iter("class-decl"):
    name = struct.get("name")
    if f"typedef struct {name} {{" not in headers:
        continue  # private
    check(f"sizeof({name})", int(struct.get("size-in-bits")) // 8)
    for member in struct.iter("data-member"):
        check(f"offsetof({name}, {member[0].get('name')})", int(member.get("layout-offset-in-bits")) // 8)
for enum in root.iter("enum-decl"):
    for item in enum.iter("enumerator"):
        check(item.get("name"), item.get("value"))
