"""One file of JSON, and tables, of what bench/run-gpu's parts have left in a folder.

checks has a line for each thing that was tried, as bench/device/noted.sh writes them; alltoall.json, rows.json, line.json
(device_alltoall), gemm.json, codecs.json and ulysses.json are the programs'. What a part did not leave is not in the file.

Ratios are those of times, another's over ours: above 1 we are faster. "ratio" is against the better of NCCL's ways in the
same row; "of_copy" a flat copy's time over a way's; "of_contiguous" the same bytes in one piece over rows; "share" of a line
what its rate alone would take over what was taken.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Report = dict[str, Any]

SCHEMA = "tapa-gpu/1"
FACTS = ("bytes", "mode")  # of a row of device_alltoall, beside a time for each way
COPIES = ("copy", "copy-gather")
CONTIGUOUS = "tapa-kernel"
LINE_BITS = 20e9  # per second
PROGRAMS = ("alltoall", "rows", "gemm", "codecs", "line", "ulysses")


@dataclasses.dataclass(frozen=True)
class Check:
    """Something that was tried."""

    part: str
    what: str
    seconds: float
    result: str  # "passed", "failed", "skipped"
    why: str  # of the last two


KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclasses.dataclass(frozen=True)
class Goal:
    """The least of a figure that is wanted of a part's rows: of `way` and `mode` if they are named, of `sizes` bytes, in the row with
    the most bytes or in all."""

    part: str
    what: str
    figure: str
    wanted: float
    way: str = ""
    mode: str = ""
    sizes: tuple[int, int] = (0, sys.maxsize)
    longest: bool = False

    def judges(self, row: Row) -> bool:
        named = self.way in ("", row["way"]) and self.mode in ("", row.get("mode"))
        return named and self.sizes[0] <= row.get("bytes", 0) <= self.sizes[1] and row.get(self.figure) is not None


NCCL = "NCCL's better way / symmetric"
GOALS = (
    Goal("alltoall", NCCL, "ratio", 1.0, "tapa"),
    Goal("alltoall", f"{NCCL}, up to 4 MiB one by one", "ratio", 3.0, "tapa", "eager", (0, 4 * MIB)),
    Goal("alltoall", f"{NCCL}, up to 4 MiB in a graph", "ratio", 1.4, "tapa", "graph", (0, 4 * MIB)),
    Goal("alltoall", f"{NCCL}, 16 and 64 MiB", "ratio", 1.4, "tapa", sizes=(16 * MIB, 64 * MIB)),
    Goal("alltoall", f"{NCCL}, 256 MiB to 1 GiB", "ratio", 1.2, "tapa", sizes=(256 * MIB, GIB)),
    Goal("alltoall", "a flat copy / symmetric, 256 MiB to 1 GiB", "of_copy", 0.95, "tapa", sizes=(256 * MIB, GIB)),
    Goal("gemm", "a product beside NCCL's better way / beside symmetric", "ratio", 1.0, "tapa"),
    Goal("ulysses", "NCCL's better way / one push", "ratio", 1.0, "tapa-push"),
    Goal("ulysses", "NCCL's better way / one push, norm and RoPE", "ratio", 2.5, "tapa-norm-rope-push"),
    Goal("line", "share of the line", "share", 0.95, "tapa", longest=True),
)


def checks_of(text: str) -> list[Check]:
    """Of the lines of noted.sh: part, what, beginning, end, result, why."""
    checks = []
    for line in text.splitlines():
        part, what, began, ended, result, why = line.split("\t")
        seconds = float(ended.replace(",", ".")) - float(began.replace(",", "."))  # the decimal point is the locale's
        checks.append(Check(part, what, round(seconds, 3), result, why))
    return checks


def is_nccl(way: str) -> bool:
    return way.startswith("nccl")


def _over(one: float | None, other: float | None) -> float | None:
    return round(one / other, 4) if one and other else None


def _best(times: dict[str, float]) -> tuple[str, float] | None:
    nccl = {way: time for way, time in times.items() if is_nccl(way)}
    way = min(nccl, key=nccl.__getitem__, default=None)
    return None if way is None else (way, nccl[way])


def spread(row: Row) -> list[Row]:
    """A row of device_alltoall as one of each way."""
    facts = {name: row[name] for name in FACTS}
    times = {way: time for way, time in row.items() if way not in FACTS}
    best = _best(times)
    rows = []
    for way, time in times.items():
        one = {**facts, "way": way, "microseconds": time}
        if not is_nccl(way) and way not in COPIES:
            if best:
                one |= {"best_of_nccl": best[0], "ratio": _over(best[1], time)}
            if "copy" in times:
                one["of_copy"] = _over(times["copy"], time)
        rows.append(one)
    return rows


def alltoall(part: Report) -> Report:
    return {**part, "rows": [one for row in part["rows"] for one in spread(row)]}


def strided(part: Report) -> Report:
    rows = []
    for row in part["rows"]:
        for one in spread(row):
            if one["way"] not in (CONTIGUOUS, *COPIES) and CONTIGUOUS in row:
                one["of_contiguous"] = _over(row[CONTIGUOUS], one["microseconds"])
            rows.append(one)
    return {**part, "rows": rows}


def line(part: Report, bits: float = LINE_BITS) -> Report:
    """Half of a rank's bytes, with two ranks, go to the other node."""
    rows = []
    for one in (one for row in part["rows"] for one in spread(row)):
        least = one["bytes"] * (1 - 1 / part["ranks"]) * 8 / bits * 1e6
        rows.append({**one, "line_microseconds": round(least, 2), "share": _over(least, one["microseconds"])})
    return {**part, "bits_per_second": bits, "rows": rows}


def gemm(rows: list[Row]) -> list[Row]:
    """A product's time beside the better of NCCL's ways over that beside ours, as many exchanges each."""
    judged = []
    for row in rows:
        times = {other["way"]: other["milliseconds"] for other in rows if other["exchanges"] == row["exchanges"]}
        best = _best(times)
        ours = best and not is_nccl(row["way"]) and row["way"] != "alone"
        judged.append({**row, "best_of_nccl": best[0], "ratio": _over(best[1], row["milliseconds"])} if best and ours else row)
    return judged


def ulysses(rows: list[Row]) -> list[Row]:
    """The program has computed what is NCCL's best with the same work; 0: there was no NCCL."""
    return [row if is_nccl(row["way"]) else {**row, "ratio": row["against_nccl"] or None} for row in rows]


def rows_of(part: Any) -> list[Row]:
    rows: list[Row] = part["rows"] if isinstance(part, dict) else part
    return rows


def reached(goal: Goal, part: Any) -> Report | None:
    """The least figure, the geometric mean and the row of the least; nothing where there is none."""
    rows = [row for row in rows_of(part) if goal.judges(row)]
    if goal.longest and rows:
        most = max(row["bytes"] for row in rows)
        rows = [row for row in rows if row["bytes"] == most]
    if not rows:
        return None
    worst = min(rows, key=lambda row: row[goal.figure])
    where = {name: worst[name] for name in (*FACTS, "tokens", "exchanges") if name in worst}
    return {
        "part": goal.part,
        "what": goal.what,
        "wanted": goal.wanted,
        "least": worst[goal.figure],
        "mean": round(statistics.geometric_mean(row[goal.figure] for row in rows), 4),
        "rows": len(rows),
        "where": where,
        "met": worst[goal.figure] >= goal.wanted,
    }


JUDGES: dict[str, Callable[[Any], Any]] = {"alltoall": alltoall, "rows": strided, "gemm": gemm, "line": line, "ulysses": ulysses}


def merged(machine: Report, command: str, seconds: float, checks: list[Check], parts: dict[str, Any]) -> Report:
    """`parts`: what the programs wrote, by the names of PROGRAMS."""
    judged = {name: JUDGES[name](parts[name]) if name in JUDGES else parts[name] for name in PROGRAMS if name in parts}
    goals = [reached(goal, judged[goal.part]) for goal in GOALS if goal.part in judged]
    nccl = judged.get("alltoall", {}).get("nccl") or judged.get("line", {}).get("nccl")
    counts = {result: sum(check.result == result for check in checks) for result in ("passed", "failed", "skipped")}
    return {
        "schema": SCHEMA,
        "command": command,
        "machine": {**machine, "nccl": nccl or None},
        "seconds": seconds,
        **counts,
        "checks": [dataclasses.asdict(check) for check in checks],
        "goals": [goal for goal in goals if goal],
        **judged,
    }


def _text(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"


def tables(report: Report) -> str:
    """What was not passed, the goals, and where the time went: Markdown."""
    times: dict[str, float] = {}
    for check in report["checks"]:
        times[check["part"]] = times.get(check["part"], 0) + check["seconds"]
    lines = [f"* {check['part']}, {check['what']}: {check['result']}, {check['why']}" for check in report["checks"] if check["why"]]
    if report["goals"]:
        lines += ["", "| part | | least | mean | wanted | |", "|---|---|---|---|---|---|"]
    for goal in report["goals"]:
        where = ", ".join(f"{name} {value}" for name, value in goal["where"].items())
        figures = " | ".join(_text(goal[name]) for name in ("least", "mean", "wanted"))
        lines.append(f"| {goal['part']} | {goal['what']} | {figures} | {'met' if goal['met'] else 'not met'}, least at {where} |")
    spent = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in times.items())
    lines += ["", f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped: {spent}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def answer_of(*command: str) -> str:
    """What a program prints; "" where there is none, or it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def this_machine() -> Report:
    asked = answer_of("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    gpus = [[word.strip() for word in each.split(",")] for each in asked.splitlines()]
    release = [word for word in answer_of("nvcc", "--version").replace(",", " ").split() if word.startswith("V")]
    model = [text.partition(":")[2].strip() for text in _lines("/proc/cpuinfo") if text.startswith("model name")]
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/lib"))
    import script_flags  # type: ignore[import-not-found]

    return {
        "gpus": [{"name": each[0], "memory": each[1]} for each in gpus if len(each) == 3],
        "driver": gpus[0][2] if gpus and len(gpus[0]) == 3 else None,
        "cuda": release[-1][1:] if release else None,
        "processor": model[0] if model else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "version": script_flags.project_version(),
        "commit": answer_of("git", "describe", "--always", "--dirty", "--exclude", "*") or None,
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=0, help="that all of it took")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--command", default="", help="that was called")
    options = parser.parse_args()
    files = {name: options.folder / f"{name}.json" for name in PROGRAMS}
    parts = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    checks = checks_of("\n".join(_lines(str(options.folder / "checks"))))
    report = merged(this_machine(), options.command, options.seconds, checks, parts)
    print(tables(report), end="")
    if options.json:
        whole = options.json.with_name(options.json.name + ".part")
        whole.write_text(json.dumps(report, indent=1) + "\n")
        whole.replace(options.json)


if __name__ == "__main__":
    main()
