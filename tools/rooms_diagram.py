"""Draws the rooms of rooms.py as an SVG diagram: each room on a floor above the rooms that it includes."""
from __future__ import annotations

import collections
import pathlib
from statistics import mean

STYLE = """text { font: 600 14px sans-serif; text-anchor: middle; fill: #1f2937 }
text.size { font: 12px sans-serif; fill: #6b7280 }
rect { fill: #eef2ff; stroke: #6366f1 }
rect.paper { fill: #fff; stroke: none }
path { fill: none; stroke: #94a3b8; stroke-width: 1.5 }
path.head { fill: #94a3b8; stroke: none }
path.wrong { stroke: #dc2626; stroke-dasharray: 5 3 }"""
HEIGHT, GAP, FLOOR = 50, 24, 110  # of a box, between boxes, between floors


def draw(lines: list[tuple[str, int]], includes: set[tuple[str, str]], allowed: dict[str, set[str]], path: str) -> None:
    """lines: (room, number of lines) of each file; includes: (room, room that it includes); allowed: rooms that each room may include.
    Arrows that others imply are not drawn. Includes that are not allowed, except of single files, are red."""
    sizes = {room: [n for other, n in lines if other == room] for room in sorted({room for room, _ in lines})}
    ties = {(a, b) for a, b in includes if a != b and b in sizes}
    below = {room: {b for a, b in ties if a == room and b in allowed[a]} for room in sizes}
    reach = {room: set(below[room]) for room in sizes}
    for middle in sizes:
        for room in sizes:
            reach[room] |= reach[middle] if middle in reach[room] else set()
    level: dict[str, int] = {}
    for room in sorted(sizes, key=lambda room: len(reach[room])):
        level[room] = 1 + max((level[other] for other in below[room] if other in level), default=-1)
    # An arrow over several floors passes through an empty slot on each floor in between.
    floors: dict[int, list[str]] = collections.defaultdict(list)
    for room in sizes:
        floors[level[room]].append(room)
    next_below: dict[str, list[str]] = collections.defaultdict(list)
    for room in sizes:
        implied = set().union(*(reach[middle] for middle in below[room]))
        for other in sorted(below[room] - implied):
            way = [room, *(f"{room} {other} {floor}" for floor in range(level[room] - 1, level[other], -1)), other]
            for a, b in zip(way, way[1:]):
                next_below[a].append(b)
                level.setdefault(b, level[a] - 1)
            for gap in way[1:-1]:
                floors[level[gap]].append(gap)
    widths = {slot: 10 * max(len(slot), 15) + 20 if slot in sizes else 6 for row in floors.values() for slot in row}
    lengths = {floor: sum(widths[slot] + GAP for slot in row) - GAP for floor, row in floors.items()}
    width, height = max(lengths.values()) + 2 * GAP, FLOOR * len(floors) + GAP
    centre: dict[str, float] = {}
    boxes, arrows = [], []
    for floor in range(len(floors)):
        x, y = (width - lengths[floor]) / 2, height - FLOOR * (floor + 1) + GAP
        for slot in sorted(floors[floor], key=lambda slot: mean([centre[other] for other in next_below[slot]] or [width / 2])):
            centre[slot] = middle_x = x + widths[slot] / 2
            if slot in sizes:
                boxes.append(f'<rect x="{x:g}" y="{y}" width="{widths[slot]}" height="{HEIGHT}" rx="6"/>'
                             f'<text x="{middle_x:g}" y="{y + 21}">{slot}</text>'
                             f'<text class="size" x="{middle_x:g}" y="{y + 39}">{len(sizes[slot])} files, '
                             f'{sum(sizes[slot]):,} lines</text>')
            else:
                arrows.append(f'<path d="M{middle_x:g},{y} v{HEIGHT}"/>')
            for other in next_below[slot]:
                to, end = centre[other], y + FLOOR
                arrows.append(f'<path d="M{middle_x:g},{y + HEIGHT} C{middle_x:g},{end - 20} {to:g},{y + HEIGHT + 20} {to:g},{end}"/>')
                if other in sizes:
                    arrows.append(f'<path class="head" d="M{to - 5:g},{end - 9} h10 l-5,9 z"/>')
            x += widths[slot] + GAP
    for a, b in sorted(ties):
        if b not in allowed[a]:
            start, end = (height - FLOOR * (level[room] + 1) + GAP + HEIGHT // 2 for room in (a, b))
            arrows.append(f'<path class="wrong" d="M{centre[a]:g},{start} L{centre[b]:g},{end}"/>')
    pathlib.Path(path).write_text("\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<style>{STYLE}</style><rect class="paper" width="{width}" height="{height}"/>', *arrows, *boxes, "</svg>", "")))
