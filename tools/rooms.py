#!/usr/bin/env python3
"""Finds files that depend on each other in a cycle, and includes that are not allowed. Exits 1 if there are any.

A room is a folder, and ROOMS lists what each room may include. Cycles are not allowed within a room or across rooms, because their files
can only be understood all at once. The script parses text and compiles nothing:

* foo.c, foo.h and foo.def in a folder are one unit.
* A function or variable belongs to the file with its non-static definition outside all braces.
* A use is the name in a body, an initialiser or a macro that these use, in a file that sees a declaration. A declaration is not a use.
* Python imports count wherever they are: at the top, in functions, under TYPE_CHECKING.
"""
from __future__ import annotations

import argparse
import ast
import collections
import os
import pathlib
import re
from typing import Iterator, NamedTuple

import rooms_diagram

# For each room, the rooms and single files that it may include. It may also include all that those rooms may. A folder without a row
# belongs to the room that contains it. A row's folder need not exist.
ROOMS = {
    "include": "",
    "shaders": "",
    "core/base": "include",
    "core/contract": "core/base",
    "core/device": "core/contract",
    "core/file": "core/base",
    "core/image": "core/contract",
    "core/model": "core/file",
    "core/weights": "core/model core/device",
    "core/plan": "core/weights core/image",
    "core/forward": "core/plan",
    "core/session": "core/forward",
    "backend_cpu": "core/contract",
    "backend_cuda": "core/contract",
    "backend_vulkan": "core/contract shaders",
    "python": "include core/base/os.h core/base/os_module.h core/base/system.h",
    "python/raggedvit/_c": "include",
    "python/raggedvit/_arrays": "python/raggedvit/_c",
    "python/raggedvit/_torch": "python/raggedvit/_arrays",
    "python/raggedvit/images": "python/raggedvit/_c",
    "python/raggedvit/_session": "python/raggedvit/_torch python/raggedvit/images",
    "python/raggedvit/_modules": "python/raggedvit/_session",
    "python/raggedvit": "python/raggedvit/_modules",
    "tools/options": "include",
    "tools/cli": "tools/options core/base/quantized.h core/base/os.h core/base/os_program.h core/base/system.h",
    "tools": "python",  # scripts
    "serving": "tools/cli",
    "bench": "tools/cli python/raggedvit backend_cuda/linear_choose.h",
    "examples": "python/raggedvit",
}

ROOT = pathlib.Path(__file__).resolve().parent.parent
READ, UNREAD = {".c", ".h", ".def", ".cu", ".cuh", ".py"}, {"tests", "results", "__pycache__"}
INCLUDE_PATHS = ("", "include", "tools/cli", "tools/options")  # in addition to the folder of the file and its parent
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.M)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]", re.M)
NOT_CODE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\bextern\s+{")
PASTED = re.compile(r"\b(\w+)##\w+(?!\w*##)(\s*\([^{};]*\)[\s\\]*{)?")  # prefix_##name, perhaps the head of a function
TYPE = re.compile(r"\s*(typedef\b.*|_Static_assert\b.*|(struct|union|enum)\s+\w+\s*)", re.S)
Edges = dict[str, dict[str, str]]  # from, to: the reason


class Include(NamedTuple):
    line: int
    file: str


class Source:
    """The includes of a file and, for C, the names of its functions and variables."""
    def __init__(self) -> None:
        self.includes: list[Include] = []
        self.defined: set[str] = set()   # not static
        self.declared: set[str] = set()  # visible to files that include it
        self.static: set[str] = set()
        self.used: set[str] = set()
        self.macros: dict[str, set[str]] = {}  # of a header: the words in each macro


def room_of(file: str) -> str:
    return max((room for room in ROOMS if file.startswith(room + "/")), key=len, default="")


def unit_of(file: str) -> str:
    return file if file.endswith(".py") else os.path.splitext(file)[0]


def find_files() -> list[str]:
    paths = [path.relative_to(ROOT) for top in {room.split("/")[0] for room in ROOMS} for path in (ROOT / top).rglob("*")]
    return sorted(str(path) for path in paths if path.suffix in READ and not UNREAD.intersection(path.parts))


def declarations(text: str) -> Iterator[tuple[str, str]]:
    """Splits the text outside all braces into declarations, each with the text in its braces."""
    depth = start = 0
    head = body = ""
    for match in re.finditer(r"[{};]", text):
        at, mark = match.start(), match.group()
        depth += (mark == "{") - (mark == "}")
        if mark == "{" and depth == 1:
            head, start = head + text[start:at], at
        elif mark == "}" and depth == 0:
            body, start = body + text[start:at + 1], at + 1
        if (mark == ";" or head.rstrip().endswith(")")) and depth == 0:  # a function ends with its brace, anything else with a semicolon
            yield head + (text[start:at] if mark == ";" else ""), body
            head, body, start = "", "", at + 1


def names_of(head: str, is_function: bool) -> list[str]:
    """The names that a declaration declares: f in `char *f(int x)`, a and b in `int a[2], *b =`."""
    if is_function:
        return (re.findall(r"\(\s*\*\s*(\w+)\s*\)", head) or re.findall(r"(\w+)\s*\(", head))[:1]
    return re.findall(r"(\w+)\s*(?=[\[,]|$)", head.partition("=")[0].strip())


def read_c(file: str) -> Source:
    text = (ROOT / file).read_text()
    source = Source()
    for match in INCLUDE.finditer(text):
        around = (os.path.dirname(file), os.path.dirname(os.path.dirname(file))) if match.group(1) == '"' else ()
        paths = [os.path.normpath(os.path.join(folder, match.group(2))) for folder in (*around, *INCLUDE_PATHS)]
        found = [path for path in paths if (ROOT / path).is_file()]  # none: a system header or one made by the build
        source.includes += [Include(text.count("\n", 0, match.start()) + 1, path) for path in found[:1]]
    text = COMMENT_OR_STRING.sub(" ", text)
    tables = [(ROOT / include.file).read_text() for include in source.includes if include.file.endswith(".def")]
    rows = {word for table in tables for word in WORD.findall(COMMENT_OR_STRING.sub(" ", table))}
    for match in DIRECTIVE.finditer(text):
        if match.group(1) == "define":
            macro, *words = WORD.findall(match.group(2))
            (source.macros.setdefault(macro, set()) if file.endswith(".h") else source.used).update(words)
            for pasted in PASTED.finditer(match.group(2)):  # names made from the rows of a table: headers declare them
                names = {pasted.group(1) + row for row in rows}
                (source.declared if file.endswith(".h") else source.defined if pasted.group(2) else source.used).update(names)
    for head, body in declarations(NOT_CODE.sub(" ", DIRECTIVE.sub(" ", text))):
        is_function = "(" in head and "=" not in head
        if TYPE.fullmatch(head) or (body and not is_function and "=" not in head):
            continue
        source.used.update(WORD.findall(body), WORD.findall(head.partition("=")[2]))
        declared, words = names_of(head, is_function), head.split()
        source.declared.update(declared)
        if "static" in words:
            source.static.update(declared)
        elif body or "=" in head or not (is_function or "extern" in words):
            source.defined.update(declared)
    return source


def read_python(file: str) -> Source:
    source = Source()
    here = root = os.path.dirname(file)
    while (ROOT / root / "__init__.py").is_file():  # absolute imports begin outside the package
        root = os.path.dirname(root)
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        level, module = (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
        folders = [os.path.join(here, *[".."] * (level - 1))] if level else [root, os.path.dirname(root), "python", ""]
        for alias in node.names:  # import MODULE, from PACKAGE import MODULE, from MODULE import NAME
            modules = [".".join(filter(None, (module, alias.name))), module or ("__init__" if level else "")]
            paths = [os.path.normpath(os.path.join(folder, name.replace(".", "/") + end)) for name in modules if name
                     for folder in folders for end in (".py", "/__init__.py")]
            source.includes += [Include(node.lineno, path) for path in paths if path != file and (ROOT / path).is_file()][:1]
    return source


def find_edges(sources: dict[str, Source]) -> Edges:
    edges: Edges = collections.defaultdict(dict)
    definers: dict[str, list[str]] = collections.defaultdict(list)
    macros = set().union(*(source.macros for source in sources.values()))  # some look like functions: void ISA_NAME(f)(void) {
    for file, source in sources.items():
        for name in source.defined - macros:
            definers[name].append(file)
    for file, source in sources.items():
        seen = [file]
        for other in seen:  # the loop extends it
            seen += {include.file for include in sources[other].includes}.intersection(sources).difference(seen)
        used = set(source.used)
        words = list(used)
        for word in words:  # the loop extends it
            words += set().union(*(sources[other].macros.get(word, ()) for other in seen)) - used
            used.update(words)
        visible = set().union(*(sources[other].declared for other in seen))
        ties = [(include.file, f"includes {include.file}") for include in source.includes]
        for name in sorted((used & visible & definers.keys()) - source.static):
            # Of several definitions, a program links the one in its own folder.
            near = [other for other in definers[name] if os.path.dirname(other) == os.path.dirname(file)]
            ties += [(other, name) for other in near or definers[name] if file not in definers[name]]
        for other, why in ties:
            if unit_of(other) != unit_of(file):
                edges[unit_of(file)].setdefault(unit_of(other), why)
    return edges


def find_cycles(edges: Edges) -> list[list[str]]:
    """Groups of units that reach each other."""
    reach: dict[str, set[str]] = {}
    for unit in edges:
        reach[unit], left = set(), [unit]
        while left:
            more = edges.get(left.pop(), {}).keys() - reach[unit]
            reach[unit] |= more
            left += more
    cycles = {tuple(sorted(other for other in found if unit in reach.get(other, ()))) for unit, found in reach.items() if unit in found}
    return [list(members) for members in sorted(cycles)]


def allowed(room: str) -> set[str]:
    row = ROOMS.get(room, "").split()
    return {room, *row}.union(*(allowed(below) & ROOMS.keys() for below in row))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--diagram", metavar="FILE", help="draw the rooms as an SVG diagram")
    options = parser.parse_args()
    sources = {file: (read_python if file.endswith(".py") else read_c)(file) for file in find_files()}
    wrong = [f"{file}:{include.line}: {room_of(file)} may not include {include.file}" for file, source in sources.items()
             for include in source.includes if not allowed(room_of(file)) & {include.file, room_of(include.file)}]
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    if options.diagram:
        ties = {(room_of(file), room_of(include.file)) for file, source in sources.items() for include in source.includes}
        rooms_diagram.draw([(room_of(file), (ROOT / file).read_bytes().count(b"\n")) for file in sources], ties,
                           {room: allowed(room) for room, _ in ties}, options.diagram)
    edges = find_edges(sources)
    cycles = find_cycles(edges)
    for members in cycles:
        print(f"cycle of {len(members)}:")
        for unit in members:
            print(*(f"    {unit} -> {other}: {why}" for other, why in edges[unit].items() if other in members), sep="\n")
    print(f"rooms: {len(sources)} files, {len(cycles)} cycles, {len(wrong)} includes that are not allowed")
    return 1 if cycles or wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
