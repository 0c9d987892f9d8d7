#!/usr/bin/env python3
"""Checks the machine code of the arm64 kernels: instruction counts in place of times, where no processor is at hand.

    tests/arm_counts.py BUILD [OBJDUMP]

For every tile of a GEMM it prints vector loads (counted by registers), stores and multiply-adds of a step of its inner
loop, and the loads that the 32 registers allow. No inner loop may spill. Loads must be within 10 % of the minimum, and
so must be all instructions of the largest tiles.
"""

import os
import re
import subprocess
import sys

MULTIPLY = re.compile(r"(fmla|sdot|smmla|bfdot|bfmmla)$")
# File of the kernels; name of the tiles' functions; from the numbers in a name: registers of x and of weights, and
# multiply-adds of a step.
TILES = (
    ("kernels_table_portable", r"product_(\d)_(\d)$", lambda rows, vecs: (rows, 4 * vecs, 4 * rows * vecs)),
    ("linear_neon_neon_dotprod", r"s8_(\d)$", lambda rows: (rows, 16, 16 * rows)),
    ("linear_neon_neon_i8mm", r"s8_(\d)$", lambda pairs: (pairs, 4, 4 * pairs)),
    ("linear_neon_neon_bf16", r"(?:s8|bf16)_(\d)$", lambda pairs: (pairs, 4, 4 * pairs)),
    ("kernels_attention_bf16_neon_bf16", r"gemm_(\d)_lines$", lambda rows: (rows, 16, 16 * rows)),
)


def functions(objdump, path):
    """Yields the name of each function and its instructions (address, mnemonic, operands)."""
    command = [objdump, "-d", "--no-show-raw-insn", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    name, body = None, []
    for line in text.splitlines():
        if begin := re.match(r"[0-9a-f]+ <(.*)>:", line):
            if name:
                yield name, body
            name, body = begin[1], []
        elif found := re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            body.append((int(found[1], 16), found[2], found[3]))
    if name:
        yield name, body


def inner_loops(body):
    """Returns the instructions of each loop that contains no other loop."""
    spans = set()
    for address, mnemonic, operands in body:
        target = re.search(r"\b([0-9a-f]+) <", operands)
        if re.match(r"(b|b\..*|cbn?z|tbn?z)$", mnemonic) and target and body[0][0] <= int(target[1], 16) <= address:
            spans.add((int(target[1], 16), address))
    inner = [s for s in spans if not any(t != s and s[0] <= t[0] and t[1] <= s[1] for t in spans)]
    return [[i for i in body if first <= i[0] <= last] for first, last in inner]


def count(loop):
    """Returns multiply-adds, loaded and stored vector registers, accesses to the stack, and all instructions."""
    multiplies = loads = stores = stack = 0
    for _, mnemonic, operands in loop:
        registers = len(re.findall(r"\b[qdsv]\d+\b|\bv\d+\.", operands.split("[")[0]))
        multiplies += bool(MULTIPLY.match(mnemonic))
        loads += registers if mnemonic.startswith("ld") else 0
        stores += registers if mnemonic.startswith("st") else 0
        stack += bool(re.match("ld|st", mnemonic)) and "[sp" in operands
    return multiplies, loads, stores, stack, len(loop)


def main():
    build = sys.argv[1]
    objdump = sys.argv[2] if len(sys.argv) > 2 else "aarch64-linux-gnu-objdump"
    folder = os.path.join(build, "CMakeFiles/raggedvit_objects.dir/backend_cpu")
    bad = checked = 0
    for file, _, _ in TILES:
        if not os.path.exists(os.path.join(folder, file + ".c.o")):
            sys.exit(f"{folder} has no {file}.c.o: not a build for arm64?")
    print(f"{'file':34} {'tile':12} multiply-adds  loads minimum stores stack  all")
    for file, pattern, expected in TILES:
        path = os.path.join(folder, file + ".c.o")
        found = 0
        for name, body in functions(objdump, path):
            tile = re.match(pattern, name)
            if not tile:
                continue
            x, weights, multiplies = expected(*map(int, tile.groups()))
            # The loop of a whole step; products of floats have a second one, for the last steps of k.
            loops = [count(loop) for loop in inner_loops(body)]
            whole = [c for c in loops if c[0] == multiplies]
            found += 1
            if len(whole) != 1:
                print(f"{file}: {name}: no inner loop has {multiplies} multiply-adds: {loops}")
                bad += 1
                continue
            _, loads, stores, stack, every = whole[0]
            print(f"{file:34} {name:12} {multiplies:13} {loads:6} {x + weights:7} {stores:6} {stack:5} {every:4}")
            if any(c[3] or c[2] for c in loops if c[0]):
                print(f"{file}: {name}: an inner loop stores or uses the stack")
                bad += 1
            if loads > 1.1 * (x + weights):
                print(f"{file}: {name}: {loads} loads, the registers allow {x + weights}")
                bad += 1
            # Loop control and addresses come on top of loads and multiply-adds.
            if multiplies >= 96 and every > 1.1 * (multiplies + x + weights):
                print(f"{file}: {name}: {every} instructions, at most {1.1 * (multiplies + x + weights):.0f} allowed")
                bad += 1
        if not found:
            print(f"{file}: no function is named {pattern}")
            bad += 1
        checked += found
    print(f"{checked} tiles checked" if not bad else f"{bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
