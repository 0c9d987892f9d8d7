"""One point of cpu_baselines.py: finds each baseline's fastest setting, checks its logits, and times all baselines in turns."""

import dataclasses
import fnmatch
import os
import pathlib
import time

import numpy as np

# Maximum error of the logits in the Euclidean norm, relative to float32's.
LIMITS = {"f32": 1e-4, "bf16": 0.05, "int8": 0.4}
PRUNED_LIMIT = 1.0  # pruned logits are compared with dense ones, so they may differ more
ROUNDS = 5
COMMIT = os.environ.get("RVIT_BENCH_COMMIT", "unknown")
SLOW = 1.0  # seconds; slower calls are repeated less often


@dataclasses.dataclass
class Point:
    """A model and a batch size on some cores."""

    shape: object
    folder: pathlib.Path
    batch: int
    cpus: list
    options: object

    def __post_init__(self):
        self.images = np.ascontiguousarray(np.load(self.folder / "images.npy")[: self.batch])

    @property
    def cores(self):
        return len(self.cpus)

    @property
    def key(self):
        return self.shape.name, self.batch, self.cores

    def wants(self, baseline):
        return any(fnmatch.fnmatchcase(baseline, pattern) for pattern in self.options.baselines.split(","))


@dataclasses.dataclass
class Attempt:
    setting: str
    call: object  # () -> logits, as a list of parts
    logits: np.ndarray
    ms: float  # per image, approximate


def describe(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"[:300]


def timed(call, clock=time.perf_counter):
    begin = clock()
    call()
    return clock() - begin


def attempt(module, point, name, setting):
    os.sched_setaffinity(0, point.cpus)  # a library may have pinned this thread
    call = module.start(point, name, setting)
    begin = time.perf_counter()
    logits = np.concatenate(call())
    took = time.perf_counter() - begin
    if took < SLOW:  # the first call may include set-up
        took = min(timed(call) for _ in range(max(2, min(6, int(0.15 / took)))))
    return Attempt(setting, call, logits.copy(), 1e3 * took / point.batch)


def choose(module, point, name, known=None):
    """Returns the fastest setting, and for each the time or why it did not run. Tries further settings only while they are faster."""
    best, times = None, {}

    def faster(setting):
        nonlocal best
        try:
            found = attempt(module, point, name, setting)
        except Exception as error:
            times[setting] = describe(error)
            return False
        times[setting] = found.ms
        if best is None or found.ms < best.ms:
            best = found
            return True
        return False

    for setting in [known] if known else module.baselines(point)[name]:
        faster(setting)
    if best is None:
        raise RuntimeError("; ".join(dict.fromkeys(why.removeprefix("RuntimeError: ") for why in times.values())))
    for setting in [] if known else module.more(point, name, best.setting):
        if not faster(setting):
            break
    return best, times


def checked(name, logits, wanted):
    """Returns the error of the logits relative to float32's. Raises if it exceeds the limit."""
    limit = PRUNED_LIMIT if "keep" in name else LIMITS[name.split()[1]]
    if logits.shape != wanted.shape or not np.isfinite(logits).all():
        raise RuntimeError(f"logits {logits.shape} with {int((~np.isfinite(logits)).sum())} values that are not finite")
    off = float(np.linalg.norm(logits - wanted) / np.linalg.norm(wanted))
    same = float((logits.argmax(1) == wanted.argmax(1)).mean())
    if off > limit:
        raise RuntimeError(f"logits are off by {off:.3g}, limit {limit:g}; the class is the same for {same:.0%}")
    return {"relative": off, "same_class": same}


def take_turns(rows, seconds, rounds=ROUNDS, clock=time.perf_counter):
    """rows: (row, call). Adds ms_per_image to each row. The first call of a turn starts with the caches of another baseline, so it
    counts only if it takes so long that this does not matter."""
    samples = {id(row): [] for row, _ in rows}
    for _ in range(rounds):
        for row, call in rows:
            found = samples[id(row)]
            if len(found) >= 2 and found[0] > SLOW:
                continue
            time.sleep(0.03)  # lets the threads of the previous baseline go to sleep
            end = time.perf_counter() + seconds / rounds
            took = timed(call, clock)
            if took > 0.05:
                found.append(took)
            while time.perf_counter() < end or not found:
                found.append(timed(call, clock))
    for row, _ in rows:
        ordered = sorted(1e3 * s / row["batch"] for s in samples[id(row)])
        n = len(ordered)
        row["ms_per_image"] = {"median": (ordered[n // 2] + ordered[(n - 1) // 2]) / 2, "p10": ordered[n // 10],
                               "p90": ordered[n - 1 - n // 10], "minimum": ordered[0], "count": n}


def measure(point, modules, known):
    """One row for each baseline; known: (model, batch, cores, baseline) -> setting."""
    rows, calls, options = [], [], point.options
    path = point.folder / "logits.npy"
    wanted = np.load(path)[: point.batch] if path.exists() else None
    for module in modules.values():
        for name in module.baselines(point):
            if not point.wants(name):
                continue
            row = {"model": point.shape.name, "batch": point.batch, "cores": point.cores, "cpus": point.cpus, "baseline": name, "commit": COMMIT}
            rows.append(row)
            begin = time.monotonic()
            try:
                best, row["tried"] = choose(module, point, name, known.get((*point.key, name)))
                wanted = best.logits if wanted is None else wanted
                row |= {"setting": best.setting} | checked(name, best.logits, wanted)
                calls.append((row, best.call))
            except Exception as error:
                row["skipped"] = describe(error)
            print(f"  {name}: {row.get('setting') or row.get('skipped')} after {time.monotonic() - begin:.1f} s", flush=True)
    take_turns(calls, options.seconds, 1 if options.dry_run else ROUNDS, time.process_time if options.cpu_time else time.perf_counter)
    return rows
