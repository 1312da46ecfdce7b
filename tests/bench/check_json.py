#!/usr/bin/env python3
"""Checks a file that a benchmark's --json wrote: check_json.py FILE RANKS SIZE..."""

import json
import sys

path, ranks, *wanted = sys.argv[1:]
with open(path) as file:
    document = json.load(file)
errors = []


def expect(condition: object, what: str) -> None:
    if not condition:
        errors.append(what)


expect(document["machine"]["ranks"] == int(ranks), f"machine.ranks is {document['machine']['ranks']}, not {ranks}")
expect(len(document["machine"]["node_of"]) == int(ranks), "machine.node_of has not one entry per rank")
sizes = [row["bytes"] for row in document["rows"]]
expect(sizes == [int(size) for size in wanted], f"sizes are {sizes}, not {wanted}")
for row in document["rows"]:
    where = f"row of {row['bytes']} bytes: "
    expect(row["tapa_us"] > 0 and row["mpi_us"] > 0, where + "a time is not above 0")
    expect(abs(row["ratio"] - row["mpi_us"] / row["tapa_us"]) < 1e-6 * row["ratio"], where + "ratio is not mpi_us / tapa_us")
    if document["machine"]["nodes"] == 1 and document["benchmark"] in ("tapa_alltoall", "tapa_alltoallv", "tapa_alltoallw"):
        expect(row.get("floor_us", 0) > 0, where + "floor_us is not above 0")
    expect(row["valid"], where + "data was wrong")
    expect(row["plan"], where + "no plan")
    rivals = {c["name"]: c["median_us"] for c in row["candidates"] if c["library"] == "mpi"}
    expect("default" in rivals, where + "MPI's default was not timed")
    expect(min(rivals.values()) == row["mpi_us"] == rivals[row["mpi_algorithm"]], where + "mpi_us is not the best of MPI's")
print("\n".join(errors) or f"{path}: {len(sizes)} rows are right")
sys.exit(1 if errors else 0)
