"""demo_table.py FOLDER: the one table of tools/demo, from the files that its runs have left in FOLDER.

Fails when FFTW's results differ between the runs with and without the drop-in."""

import glob
import json
import os
import re
import statistics
import sys


def latencies(path):
    """Size -> average latency in us, from a file in OSU's form."""
    with open(path) as file:
        return {int(m[1]): float(m[2]) for m in (re.match(r"(\d+)\s+([0-9.]+)", line) for line in file) if m}


def benchmark_rows(folder):
    """(name, size, MPI us, TAPA us, plan) of each size: in one run, and as an unmodified program with the drop-in."""
    with open(os.path.join(folder, "alltoall.json")) as file:
        rows = json.load(file)["rows"]
    without, with_it = (latencies(os.path.join(folder, name)) for name in ("plain.txt", "dropin.txt"))
    plans = {row["bytes"]: row["plan"] for row in rows}
    return [("in turn, MPI's best", row["bytes"], row["mpi_us"], row["tapa_us"], row["plan"]) for row in rows] + [
        ("drop-in, MPI_Alltoall", size, without[size], with_it[size], plans.get(size, "")) for size in without if size in with_it
    ]


def read_fft(paths):
    """Times in ms of each transform in all runs, and the distinct results."""
    times, results = {}, set()
    for path in paths:
        with open(path) as file:
            lines = file.read().splitlines()
        for line in lines:
            if match := re.match(r"time (\S+) ([0-9.]+) ms", line):
                times.setdefault(match[1], []).append(float(match[2]))
        results.add("\n".join(line for line in lines if " spectrum " in line))
    return times, results


def fft_rows(folder):
    """Rows as above: medians over the runs. Exits when results differ."""
    mpi, results = read_fft(sorted(glob.glob(os.path.join(folder, "fft.mpi.*.txt"))))
    tapa, more = read_fft(sorted(glob.glob(os.path.join(folder, "fft.tapa.*.txt"))))
    if len(results | more) > 1:
        sys.exit("FFTW's results differ with and without the drop-in:\n" + "\n--\n".join(sorted(results | more)))
    rows = []
    for name in mpi:
        without, with_it = (1e3 * statistics.median(times[name]) for times in (mpi, tapa))
        rows.append((f"drop-in, FFTW {name}", "", without, with_it, ""))
    return rows


def main(folder):
    print(f"{'program':24} {'bytes':>8} {'MPI us':>12} {'TAPA us':>12} {'ratio':>6}  plan")
    for name, size, mpi, tapa, plan in benchmark_rows(folder) + fft_rows(folder):
        print(f"{name:24} {size:>8} {mpi:12.1f} {tapa:12.1f} {mpi / tapa:6.2f}  {plan}".rstrip())
    print("in turn: both in one run, slowest rank, against the best of MPI's algorithms. drop-in: the unmodified program in")
    print("runs without and with LD_PRELOAD, mean over the ranks. FFTW's results are the same to the last bit.")


main(sys.argv[1])
