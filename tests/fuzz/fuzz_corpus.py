#!/usr/bin/env python3
"""Converts the unnamed inputs of the fuzz corpus (tests/fuzz/corpus/TARGET/found.pack) to single files, which libFuzzer needs, and back.

  fuzz_corpus.py unpack PACK FOLDER   writes each input of PACK to FOLDER as found_000, found_001, ...
  fuzz_corpus.py add PACK FILE...     appends the files that are not in PACK yet

A pack is a sequence of inputs, each after its length in four bytes, little-endian. tests/fuzz/driver.c reads it.
"""
import pathlib
import struct
import sys


def inputs_of(pack):
    data = pack.read_bytes() if pack.exists() else b""
    inputs = []
    at = 0
    while at < len(data):
        if at + 4 > len(data) or at + 4 + struct.unpack_from("<I", data, at)[0] > len(data):
            sys.exit(f"{pack} ends within an input")
        (length,) = struct.unpack_from("<I", data, at)
        inputs.append(data[at + 4:at + 4 + length])
        at += 4 + length
    return inputs


def unpack(pack, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(inputs_of(pack)):
        (folder / f"found_{i:03}").write_bytes(data)


def add(pack, files):
    inputs = inputs_of(pack)
    for path in files:
        data = path.read_bytes()
        if data not in inputs:
            inputs.append(data)
    pack.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in inputs))


def main():
    action, *paths = sys.argv[1:] or [""]
    paths = [pathlib.Path(path) for path in paths]
    if action == "unpack" and len(paths) == 2:
        unpack(*paths)
    elif action == "add" and len(paths) >= 2:
        add(paths[0], paths[1:])
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
