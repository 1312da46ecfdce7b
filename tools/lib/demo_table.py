"""demo_table.py FOLDER: the one table of tools/demo, from the files that its runs have left in FOLDER.

Fails when FFTW's results differ between the runs with and without the drop-in."""

import glob
import json
import os
import re
import statistics
import sys


def benchmark_rows(folder):
    """(name, size, MPI us, TAPA us, drop-in us or None, plan) of each size."""
    with open(os.path.join(folder, "alltoall.json")) as file:
        rows = json.load(file)["rows"]
    dropin = {}
    with open(os.path.join(folder, "dropin.txt")) as file:
        for line in file:
            if match := re.match(r"(\d+)\s+([0-9.]+)", line):
                dropin[int(match[1])] = float(match[2])
    return [("MPI_Alltoall", row["bytes"], row["mpi_us"], row["tapa_us"], dropin.get(row["bytes"]), row["plan"]) for row in rows]


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
        rows.append((f"FFTW {name}", "", without, None, with_it, ""))
    return rows


def line(name, size, mpi, tapa, dropin, plan):
    """One row; a time that was not measured stays empty, with its ratio."""

    def pair(time):
        return f"{'':>12} {'':>6}" if time is None else f"{time:12.1f} {mpi / time:6.2f}"

    return f"{name:24} {size:>8} {mpi:12.1f} {pair(tapa)} {pair(dropin)}  {plan}".rstrip()


def main(folder):
    print(f"{'program':24} {'bytes':>8} {'MPI us':>12} {'TAPA us':>12} {'ratio':>6} {'drop-in us':>12} {'ratio':>6}  plan")
    for row in benchmark_rows(folder) + fft_rows(folder):
        print(line(*row))
    print("MPI: the best of its algorithms; TAPA: called by its own name, in the same run; drop-in: the unmodified program")
    print("with LD_PRELOAD, in a run of its own. ratio: MPI's time over ours. FFTW's results are the same to the last bit.")


main(sys.argv[1])
