#!/usr/bin/env python3
"""Finds words that the glossary of CONTRIBUTING.md replaces: in prose, in names, and in names of files.

usage: tools/glossary.py [--words]   --words only lists them
Exits 1 if a word is found.
"""

import pathlib
import re
import subprocess
import sys

# A prefix of tensor names in Hugging Face checkpoints.
ALLOWED = re.compile(r"vision_[t]ower\.")
ROOT = pathlib.Path(__file__).resolve().parent.parent
GLOSSARY = "CONTRIBUTING.md"
# Files with old names (bench/reports.py reads reports of older versions), data, or text by others.
EXCLUDED = re.compile(r"CHANGELOG\.md|docs/migrating\.md|LICENSE|abi/|bench/reports\.py|bench/results/|tests/fuzz/corpus/|tests/.*/data/|.*\.(json|svg|png|jpg|safetensors|spv|xml|pack)$")


def words() -> list[str]:
    """The words in backticks of the second column of the glossary."""
    text = (ROOT / GLOSSARY).read_text()
    table = text[text.index("<!-- begin glossary -->") : text.index("<!-- end glossary -->")]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("| ") and not row.startswith("| say")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row[2])]


def pattern(found: list[str]) -> re.Pattern[str]:
    """Matches whole words, also between underscores and capitals. Their parts may be on two lines of a comment."""
    parts = [r"[\s_*#/]+".join(re.escape(part) for part in re.split(r"[ _]", word)) for word in found]
    return re.compile(r"(?<![A-Za-z])(?:" + "|".join(sorted(parts, key=len, reverse=True)) + r")(?![a-z])", re.IGNORECASE)


def main() -> int:
    found = words()
    if "--words" in sys.argv:
        print("\n".join(found))
        return 0
    search = pattern(found)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    hits = 0
    for file in sorted(filter(None, files)):
        if EXCLUDED.match(file) or not (ROOT / file).is_file():
            continue
        try:
            text = (ROOT / file).read_text()
        except UnicodeDecodeError:
            continue
        if file == GLOSSARY:
            text = text[: text.index("<!-- begin glossary -->")] + text[text.index("<!-- end glossary -->") :]
        text = ALLOWED.sub(lambda match: " " * len(match.group()), text)
        for at, what in [(match.start(), match.group()) for match in search.finditer(text)] + [(0, match.group()) for match in search.finditer(file)]:
            print(f"{file}:{text.count(chr(10), 0, at) + 1}: {' '.join(what.split())}")
            hits += 1
    print(f"glossary: {len(found)} words, {hits} found")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
