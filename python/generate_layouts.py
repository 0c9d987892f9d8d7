#!/usr/bin/env python3
"""Writes raggedvit/_c/constants.py and layouts.py: the enums, structs and functions of the public headers, for ctypes.

python/generate_layouts.py                  writes the modules
python/generate_layouts.py --check [CC]     fails if one is out of date, or a C compiler lays out a struct differently
"""

import argparse
import ctypes
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent / "include"
PACKAGE = HERE / "raggedvit"
# Not experimental.h: the package works with every library of its minor version.
HEADERS = ["device.h", "ops.h", "image.h", "prune.h", "model.h", "session.h", "cuda.h", "vulkan.h"]
SCALARS = {
    "int": "c_int",
    "int32_t": "c_int32",
    "uint32_t": "c_uint32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
    "uint8_t": "c_uint8",
    "size_t": "c_size_t",
    "intptr_t": "c_ssize_t",
    "float": "c_float",
    "double": "c_double",
    "char": "c_char",
    "void": "None",
}
CONSTANTS = '''\
"""Enum values and numeric macros of raggedvit's C API. Written by python/generate_layouts.py; do not edit."""

CONSTANTS = {
'''
HEAD = '''"""Structs and functions of raggedvit's C API. Written by python/generate_layouts.py; do not edit."""

from __future__ import annotations

from ctypes import {names}, sizeof
from typing import Any

from .structs import Struct, array, fill
'''
TAIL = '''

def new(name: str, **values: Any) -> Any:
    """A struct as its RVIT_..._INIT makes it, then the fields given."""
    struct = TYPES[name]()
    fill(struct, DEFAULTS.get(name, {}))
    fill(struct, values)
    return struct
'''


def strip(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    return re.sub(r"//[^\n]*", " ", text)


class Headers:
    """What the headers declare.

    constants: enum values and numeric macros. structs: name -> [(field, type)], types as Python source. defaults: what
    the RVIT_..._INIT of a struct sets. functions: name -> (result, arguments, whether the result is a rvit_status).
    """

    def __init__(self):
        text = "\n".join(strip((INCLUDE / "raggedvit" / name).read_text()) for name in HEADERS)
        self.constants, self.structs, self.defaults, self.functions = {}, {}, {}, {}
        self._types = dict(SCALARS)
        for name, value in re.findall(r"^\s*#\s*define\s+(RVIT_\w+)\s+\(?(-?\d+)\)?\s*$", text, flags=re.M):
            self.constants[name] = int(value)
        macros = dict(re.findall(r"^\s*#\s*define\s+(RVIT_\w+_INIT)\s+RVIT_INIT(?:_WITH)?(\(.*\))$", text, flags=re.M))
        body = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        for name in re.findall(r"typedef\s+[\w\s*]+\(\s*\*\s*(\w+)\s*\)", body):
            self._types[name] = "c_void_p"
        for match in re.finditer(r"typedef\s+(enum|struct)\s+(\w+)\s*\{(.*?)\}\s*(\w+)\s*;", body, flags=re.S):
            if match[1] == "enum":
                self._enum(match[4], match[3])
            else:
                self._struct(match[4], match[3])
        for result, name, arguments in re.findall(r"RVIT_API\s+([\w\s*]+?)\b(rvit_\w+)\s*\(([^()]*)\)\s*;", body):
            result = result.replace("RVIT_NODISCARD", "").strip()
            given = (
                []
                if arguments.strip() == "void"
                else [self._type(re.sub(r"\w+$", "", a.strip())) for a in arguments.split(",")]
            )
            self.functions[name] = (self._type(result), given, result == "rvit_status")
        for name in self.structs:
            macro = macros.get(name.upper() + "_INIT")
            if macro is not None:
                self.defaults[name] = {"struct_size": f"sizeof({name})"}
                for field, value in re.findall(r"\.(\w+) = ([-\w.]+)", macro):
                    self.defaults[name][field] = self._number(dict(self.structs[name])[field], value)

    def _enum(self, name, body):
        value = -1
        for entry in filter(None, (e.strip() for e in body.split(","))):
            label, _, number = (part.strip() for part in entry.partition("="))
            value = int(number, 0) if number else value + 1
            self.constants[label] = value
        self._types[name] = "c_int"

    def _type(self, text):
        text = re.sub(r"\b(const|struct|enum)\b", "", text).strip()
        if text.endswith("*"):
            return "c_char_p" if text.replace(" ", "") == "char*" else "c_void_p"
        return self._types[text]

    def _struct(self, name, body):
        fields = []
        for line in filter(None, (l.strip() for l in body.split(";"))):
            if "(*" in line.replace(" ", ""):
                fields.append((re.search(r"\(\s*\*\s*(\w+)", line)[1], "c_void_p"))
                continue
            first, *rest = re.sub(r"\bconst\b", "", line).split(",")
            base, declarator = re.match(r"\s*((?:struct\s+)?\w+)\s*(.*)", first, flags=re.S).groups()
            for one in [declarator, *rest]:
                stars, field, dimension = re.match(r"([\s*]*)(\w+)\s*(?:\[(\w+)\])?", one).groups()
                kind = self._type(base + " " + stars)
                if dimension:
                    n = dimension if dimension.isdigit() else self.constants[dimension]
                    kind = f"{kind} * {n}" if kind == "c_char" else f"array({kind}, {n})"
                fields.append((field, kind))
        self.structs[name] = fields
        self._types[name] = name

    def _number(self, kind, token):
        """A number or constant, as Python source."""
        number = self.constants[token] if token in self.constants else float(token)
        return repr(float(number) if kind in ("c_float", "c_double") else int(number))

    def constants_module(self):
        return CONSTANTS + "".join(f'    "{name}": {value},\n' for name, value in self.constants.items()) + "}\n"

    def _measure(self, kind):
        """Size and alignment on 64-bit systems, which the C compiler is asked about, too (--check)."""
        if kind in self.structs:
            return self._places(kind)[1:]
        entry, n = re.fullmatch(r"(?:array\()?(\w+)(?:(?: \*|,) (\d+)\)?)?", kind).groups()
        size, alignment = self._measure(entry) if entry in self.structs else [ctypes.sizeof(getattr(ctypes, entry))] * 2
        return size * int(n or 1), alignment

    def _places(self, name):
        """The offset of each field, then the size and the alignment of the struct."""
        offsets, at, widest = [], 0, 1
        for _, kind in self.structs[name]:
            size, alignment = self._measure(kind)
            offsets.append(-(-at // alignment) * alignment)
            at, widest = offsets[-1] + size, max(widest, alignment)
        return offsets, -(-at // widest) * widest, widest

    def layouts_module(self):
        def source(value):
            return (
                "{" + ", ".join(f'"{k}": {source(v)}' for k, v in value.items()) + "}"
                if isinstance(value, dict)
                else value
            )

        lines = []
        for name, fields in self.structs.items():
            offsets, size, _ = self._places(name)
            lines += ["", f"class {name}(Struct):  # {size} bytes", "    _fields_ = ["]
            lines += [f'        ("{field}", {kind}),  # {at}' for (field, kind), at in zip(fields, offsets)] + [
                "    ]",
                "",
            ]
        lines += ["", "TYPES: dict[str, Any] = {"] + [f'    "{name}": {name},' for name in self.structs] + ["}", ""]
        lines.append("DEFAULTS: dict[str, dict[str, Any]] = {")
        for name, values in self.defaults.items():
            lines += (
                [f'    "{name}": {{']
                + [f'        "{field}": {source(value)},' for field, value in values.items()]
                + ["    },"]
            )
        lines += ["}", ""]
        lines += ["# name: (result, arguments, whether the result is an rvit_status)"]
        lines += ["FUNCTIONS: dict[str, tuple[Any, list[Any], bool]] = {"]
        for name, (result, arguments, checked) in self.functions.items():
            lines.append(f'    "{name}": ({result}, [{", ".join(arguments)}], {checked}),')
        text = "\n".join(lines + ["}"])
        names = sorted(set(re.findall(r"\bc_\w+", text)))
        return HEAD.replace("{names}", ", ".join(names)) + "\n" + text + "\n" + TAIL


def check_layouts(layouts, headers, compiler):
    """Compares every size, offset and default with a C compiler's. Returns the number of structs compared."""
    lines = [
        "#include <stdio.h>",
        "#include <raggedvit/raggedvit.h>",
        "#include <raggedvit/cuda.h>",
        "#include <raggedvit/vulkan.h>",
        "int main(void) {",
    ]
    for name, fields in headers.structs.items():
        lines.append(f'printf("{name} %zu", sizeof({name}));')
        lines += [f'printf(" %zu", offsetof({name}, {field}));' for field, _ in fields]
        lines.append('puts("");')
        if name in headers.defaults:
            lines.append(
                f"{{ {name} v = {name.upper()}_INIT; const unsigned char *b = (const unsigned char *)&v;"
                f' printf("{name}="); for (size_t i = 0; i < sizeof v; i++) printf("%02x", b[i]); puts(""); }}'
            )
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layout.c"
        source.write_text("\n".join(lines + ["return 0; }"]))
        subprocess.run([compiler, "-std=c11", f"-I{INCLUDE}", "-o", f"{folder}/layout", str(source)], check=True)
        output = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        if "=" in line:
            name, wanted = line.split("=")
            found = bytes(layouts.new(name)).hex()
        else:
            name, *wanted = line.split()
            struct = layouts.TYPES[name]
            found = [str(ctypes.sizeof(struct))] + [str(getattr(struct, f).offset) for f, _ in headers.structs[name]]
        if found != wanted:
            raise SystemExit(f"{name}: the compiler says {wanted}, ctypes {found}")
    return len(headers.structs)


def check_op_table(headers):
    """Checks that core/contract/ops.def has a row for every view and every type in the args of an op."""
    table = (INCLUDE.parent / "core/contract/ops.def").read_text()
    rows = re.findall(
        r"^RVIT_(?:ARRAY\((\w+), \w+, ([\w.]+)|DTYPE(?:_OR_QUANTIZED)?\((\w+), (\w+)),", table, flags=re.M
    )
    found = {(op or other, field or dtype) for op, field, other, dtype in rows}
    wanted = set()
    for op in re.findall(r"^RVIT_OP\(\w+, (\w+)\)$", table, flags=re.M):
        for field, kind in headers.structs[f"rvit_{op}_args"]:
            if kind == "rvit_view" or field.endswith("dtype"):
                wanted.add((op, field))
            elif kind == "rvit_rows":
                wanted.add((op, f"{field}.live"))
    if found != wanted:
        raise SystemExit(
            "core/contract/ops.def and the args of the public headers differ: "
            + ", ".join(sorted(f"{op}.{field}" for op, field in found ^ wanted))
        )
    return len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", nargs="?", const="cc", metavar="CC", help="compare instead of writing")
    options = parser.parse_args()
    headers = Headers()
    for name, text in (("constants.py", headers.constants_module()), ("layouts.py", headers.layouts_module())):
        module = PACKAGE / "_c" / name
        if not options.check:
            module.write_text(text)
        elif not module.exists() or module.read_text() != text:
            raise SystemExit(
                f"python/raggedvit/_c/{name} is out of date: run python/generate_layouts.py and commit what it writes"
            )
    if not options.check:
        return
    package = types.ModuleType("raggedvit")  # without its __init__.py, which needs numpy
    package.__path__ = [str(PACKAGE)]
    sys.modules["raggedvit"] = package
    layouts = importlib.import_module("raggedvit._c.layouts")
    print(f"core/contract/ops.def has all {check_op_table(headers)} views and types of the ops' args")
    print(
        f"up to date; {check_layouts(layouts, headers, options.check)} structs are laid out as {options.check} lays"
        " them out"
    )


if __name__ == "__main__":
    main()
