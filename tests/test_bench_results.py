#!/usr/bin/env python3
"""Checks that pages name the version with which their figures were measured, and that every file in bench/results is cited.

A page or a section states "measured with version X.Y.Z"; a section without a statement inherits that of the enclosing section. Each cited
result file must exist and have that minor version.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CITED = re.compile(r"\bresults/([\w.-]+\.(?:json|svg|png))")
STATED = re.compile(r"measured\s+with\s+version\s+(\d+\.\d+)\.\d+", re.IGNORECASE)


def sections(text):
    """Yields (stated minor versions, text) for each section. A section that states none inherits them from the enclosing one."""
    around = {0: set()}
    text = re.sub(r"^```.*?^```", lambda code: code.group().replace("\n#", "\n #"), text, flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        level = len(part) - len(part.lstrip("#"))
        around = {n: stated for n, stated in around.items() if n < level} or {0: set()}
        around[level] = set(STATED.findall(part)) or around[max(around)]
        yield around[level], part


def problems(pages, results):
    """pages: name -> text; results: name -> minor versions in the file."""
    found, cited = [], set()
    for page, text in pages.items():
        for stated, part in sections(text):
            for name in dict.fromkeys(CITED.findall(part)):
                cited.add(name)
                where = f"{page}, '{part.splitlines()[0][:60]}': {name}"
                if name not in results:
                    found.append(f"{where} does not exist")
                elif not stated:
                    found.append(f"{where} is cited, but neither the section nor one around it says 'measured with version X.Y.Z'")
                elif not results[name] or not results[name] <= stated:
                    found.append(f"{where} has version {', '.join(sorted(results[name])) or 'none'}, the text says {', '.join(sorted(stated))}")
    return found + [f"bench/results/{name} is cited by no page: delete it or cite it" for name in sorted(results.keys() - cited)]


def versions(value):
    """Returns the minor versions of all members "version" and "raggedvit" of a report."""
    if isinstance(value, list):
        return set().union(*map(versions, value))
    if not isinstance(value, dict):
        return set()
    own = {".".join(v.split(".")[:2]) for key, v in value.items() if key in ("version", "raggedvit") and isinstance(v, str)}
    return own.union(*map(versions, value.values()))


def read():
    pages = [ROOT / "README.md", ROOT / "bench/README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "bench/notes").glob("*.md")]
    results = {}
    for path in (ROOT / "bench/results").iterdir():
        text = path.read_text()
        found = versions(json.loads(text)) if path.suffix == ".json" else {v[:-2] for v in re.findall(r"version (\d+\.\d+\.\d+)", text)}
        results[path.name] = found
    return {str(path.relative_to(ROOT)): path.read_text() for path in pages}, results


def check_the_check():
    page = "# A\nMeasured with version 0.3.0: results/a.json\n## B\nresults/a.json\n## C\nmeasured with version 0.1.0: results/b.json\n"
    results = {"a.json": {"0.3"}, "b.json": {"0.1"}}
    assert problems({"p": page}, results) == []
    planted = {"does not exist": (page + "results/c.json", results), "cited by no page": (page, results | {"c.json": {"0.3"}}),
               "neither the section": (page.replace("Measured with version 0.3.0", ""), results),
               "has version 0.1, the text says 0.3": (page.replace("measured with version 0.1.0", ""), results),
               "has version none": (page, results | {"a.json": set()})}
    for words, (text, files) in planted.items():
        assert any(words in found for found in problems({"p": text}, files)), words


check_the_check()
wrong = problems(*read())
print("\n".join(wrong) or "bench_results: no problems")
sys.exit(bool(wrong))
