"""The tables of bench/run-torch from its lines of JSON."""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from cases import CASES
from ways import EXACT, PEERS

Record = dict[str, Any]
Rows = dict[tuple[str, str], dict[str, Record]]  # (case, mode) -> way -> record


def gather(lines: list[Record]) -> Rows:
    """What was timed, the last record of each; what fails, too."""
    rows: Rows = defaultdict(dict)
    for record in lines:
        if "median" in record or "fails" in record:
            rows[record["case"], record["mode"]][record["way"]] = record
    return rows


def _time(record: Record | None) -> str:
    if record is None:
        return "-"
    if "fails" in record:
        return "fails"
    words = ", in parts" if record.get("in_parts") else ""
    return f"{record['median']:.1f} ({record['low']:.1f}-{record['high']:.1f}{words})"


def _best(ways: dict[str, Record], names: tuple[str, ...]) -> Record | None:
    timed = [ways[name] for name in names if "median" in ways.get(name, {})]
    return min(timed, key=lambda record: record["median"]) if timed else None


def best_of_ours(ways: dict[str, Record]) -> Record | None:
    return _best(ways, tuple(way for way in ways if way.startswith("ours")))


def times(rows: Rows) -> str:
    """Markdown: milliseconds of a forward pass, medians, with the least and the most."""
    names = [way for way in EXACT if any(way in ways for ways in rows.values())]
    names += sorted({way for ways in rows.values() for way in ways if way not in EXACT})
    lines = [
        "| | " + " | ".join(f"`{name}`" for name in names) + " | best peer / ours | diffusers / ours |",
        "|---" * (len(names) + 3) + "|",
    ]
    for (case, mode), ways in rows.items():
        ours, peer, plain = best_of_ours(ways), _best(ways, PEERS), _best(ways, ("diffusers",))
        ratios = [f"{other['median'] / ours['median']:.2f}" if other and ours else "-" for other in (peer, plain)]
        cells = [_time(ways.get(name)) for name in names]
        lines.append(f"| {case}, {mode} | " + " | ".join([*cells, *ratios]) + " |")
    return "\n".join(lines) + "\n"


def facts(rows: Rows) -> str:
    """Markdown: cosine to one GPU's output, the allocator's peak and what report() predicts, of all that was timed."""
    lines = ["| | way | cosine to one GPU | peak, GiB | predicted |", "|---|---|---|---|---|"]
    for (case, mode), ways in rows.items():
        for name, record in ways.items():
            if "median" in record:
                same = f"{record['cosine']:.6f}" if "cosine" in record else "-"
                peak = record.get("report", {}).get("peak_bytes")
                predicted = "-" if peak is None else f"{peak / 2**30:.2f}"
                lines.append(f"| {case}, {mode} | `{name}` | {same} | {record['peak_gib']:.2f} | {predicted} |")
    return "\n".join(lines) + "\n"


def slow_link(lines: list[Record]) -> str:
    """Markdown: milliseconds of a step over a slow link, medians of the turns, against the best of NCCL's ways."""
    steps: dict[tuple[str, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in lines:
        if "ms" in record:
            steps[record["case"], record["rate"]][record["way"]].append(record)
    table = []
    for (case, rate), ways in steps.items():
        medians = {way: statistics.median(record["ms"] for record in turns) for way, turns in ways.items()}
        peers = [medians[way] for way in PEERS if way in medians]
        table += [f"{case}, two nodes, {rate}", "", "| way | ms a step | best peer / it |", "|---|---|---|"]
        for way, median in medians.items():
            ratio = f"{min(peers) / median:.2f}" if peers else "-"
            table.append(f"| `{way}` | {median:.1f} ({len(ways[way])} turns) | {ratio} |")
    return "\n".join(table) + "\n" if table else ""


def failures(rows: Rows) -> str:
    return "".join(
        f"* {case}, {mode}, `{name}`: {record['fails']}\n"
        for (case, mode), ways in rows.items()
        for name, record in ways.items()
        if "fails" in record
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path, help="JSON, a line for each result")
    parser.add_argument("--json", type=Path, help="writes all of it as one file")
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.lines.read_text().splitlines() if line]
    rows = gather(lines)
    if options.json:
        notes = {name: case.note for name, case in CASES.items()}
        options.json.write_text(json.dumps({"cases": notes, "results": lines}, indent=1) + "\n")
    if rows:
        print(times(rows))
        print(facts(rows))
    print(slow_link(lines), end="")
    print(failures(rows), end="")


if __name__ == "__main__":
    main()
