"""Prints Nsight Compute's raw CSV as a short table: python3 bench/baselines/counters.py FILE.csv... A file may hold several profiles."""

import csv
import pathlib
import re
import sys

COLUMNS = {
    "us": "gpu__time_duration.sum", "regs": "launch__registers_per_thread", "warps %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram %": "dram__throughput.avg.pct_of_peak_sustained_elapsed", "l2 %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor %": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "issue %": "smsp__issue_active.avg.pct_of_peak_sustained_active", "conflicts": "l1tex__data_bank_conflicts_pipe_lsu.sum",
    "stall load": "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "stall barrier": "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
}
TO_MICROSECONDS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}


def tables(path):
    """Lists of (kernel, grid, values by column) for each profile in the file."""
    found, header, units = [], None, None
    for row in csv.reader(line for line in path.read_text().splitlines() if line.startswith('"')):
        if "Kernel Name" in row:
            header, units = row, None
            found.append([])
        elif header is not None and units is None:
            units = dict(zip(header, row))
        elif header is not None and len(row) == len(header):
            cells = dict(zip(header, row))
            values = {}
            for title, metric in COLUMNS.items():
                try:
                    values[title] = float(cells[metric].replace(",", ""))
                except (KeyError, ValueError):
                    continue
                if title == "us":
                    values[title] *= TO_MICROSECONDS.get(units.get(metric, "us"), 1.0)
            name = re.sub(r"\(.*", "", cells["Kernel Name"])
            found[-1].append((name, cells.get("Grid Size", ""), values))
    return found


def main():
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        if not path.exists():
            print(f"{path.name}: not measured")
            continue
        for table in tables(path):
            print(f"\n{path.name}: {len(table)} kernels, {sum(v.get('us', 0) for _, _, v in table):.1f} us in all")
            print(f"{'kernel':<34}{'grid':<20}" + "".join(f"{c:>14}" for c in COLUMNS))
            for kernel, grid, values in table:
                print(f"{kernel:<34}{grid:<20}" + "".join(f"{values[c]:>14.2f}" if c in values else f"{'-':>14}" for c in COLUMNS))


if __name__ == "__main__":
    main()
