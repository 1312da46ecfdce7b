"""demo_table.py node|nodes|images FOLDER: a table of tools/demo, from the files that its runs have left in FOLDER.

Fails when FFTW's results differ between the runs with and without the drop-in."""

import glob
import json
import os
import re
import statistics
import sys

Row = tuple[str, object, float, float, str]  # program, bytes, MPI us, TAPA us, plan


def load(path: str) -> list[dict]:
    with open(path) as file:
        return json.load(file)["rows"]


def print_times(rows: list[Row]) -> None:
    print(f"{'program':24} {'bytes':>8} {'MPI us':>12} {'TAPA us':>12} {'ratio':>6}  plan")
    for name, size, mpi, tapa, plan in rows:
        print(f"{name:24} {size:>8} {mpi:12.1f} {tapa:12.1f} {mpi / tapa:6.2f}  {plan}".rstrip())


def raced(name: str, path: str) -> list[Row]:
    """Rows of a run that has timed both in turn."""
    return [(name, row["bytes"], row["mpi_us"], row["tapa_us"], row["plan"]) for row in load(path)]


def latencies(path: str) -> dict[int, float]:
    """Size -> average latency in us, from a file in OSU's form."""
    with open(path) as file:
        return {int(m[1]): float(m[2]) for m in (re.match(r"(\d+)\s+([0-9.]+)", line) for line in file) if m}


def dropin_rows(folder: str) -> list[Row]:
    """The unmodified benchmark, without and with the drop-in."""
    without, with_it = (latencies(os.path.join(folder, name)) for name in ("plain.txt", "dropin.txt"))
    return [("drop-in, MPI_Alltoall", size, without[size], with_it[size], "") for size in without if size in with_it]


def read_fft(paths: list[str]) -> tuple[dict[str, list[float]], set[str]]:
    """Times in ms of each transform in all runs, and the distinct results."""
    times: dict[str, list[float]] = {}
    results = set()
    for path in paths:
        with open(path) as file:
            lines = file.read().splitlines()
        for line in lines:
            if match := re.match(r"time (\S+) ([0-9.]+) ms", line):
                times.setdefault(match[1], []).append(float(match[2]))
        results.add("\n".join(line for line in lines if " spectrum " in line))
    return times, results


def fft_rows(folder: str) -> list[Row]:
    """Medians over the runs. Exits when results differ."""
    mpi, results = read_fft(sorted(glob.glob(os.path.join(folder, "fft.mpi.*.txt"))))
    tapa, more = read_fft(sorted(glob.glob(os.path.join(folder, "fft.tapa.*.txt"))))
    if len(results | more) > 1:
        sys.exit("FFTW's results differ with and without the drop-in:\n" + "\n--\n".join(sorted(results | more)))
    rows = []
    for name in mpi:
        without, with_it = (1e3 * statistics.median(times[name]) for times in (mpi, tapa))
        rows.append((f"drop-in, FFTW {name}", "", without, with_it, ""))
    return rows


def show_node(folder: str) -> None:
    print_times(raced("any buffers", os.path.join(folder, "node.json"))
                + raced("buffers of TAPA_Alloc", os.path.join(folder, "node.registered.json")))  # fmt: skip
    print("Both in one run, slowest rank, against the best of MPI's algorithms at each size.")


def show_nodes(folder: str) -> None:
    print_times(raced("in turn, MPI's best", os.path.join(folder, "alltoall.json")) + dropin_rows(folder) + fft_rows(folder))
    print("in turn: both in one run, slowest rank, against the best of MPI's algorithms. drop-in: the unmodified program in")
    print("runs without and with LD_PRELOAD, mean over the ranks. FFTW: least of 20 transforms, slowest rank,")
    print("median of 3 runs. Its results are the same to the last bit.")


def show_images(folder: str) -> None:
    rows = load(os.path.join(folder, "dit.json"))
    flat = rows[0]
    print(f"{'row':16} {'step s':>8} {'of it waiting':>14} {'bytes':>6} {'times as fast':>14} {'PSNR dB':>8}")
    for row in rows:
        psnr = "equal" if row["psnr_db"] is None else f"{row['psnr_db']:.1f}"
        print(f"{row['name']:16} {row['step_ms'] / 1e3:8.2f} {row['exposed_ms'] / 1e3:14.2f} "
              f"{row['bytes_slow'] / flat['bytes_slow']:6.2f} {row['ratio_to_flat']:14.2f} {psnr:>8}")  # fmt: skip
    print("flat: one MPI_Alltoallv for each tensor, waited for, as other engines do; times are compared with it in 16 bits. bytes: between")
    print(
        "nodes, of flat's. balanced and fast send what changed since the last step, in few bits. PSNR: of the image to flat's, same seed."
    )


{"node": show_node, "nodes": show_nodes, "images": show_images}[sys.argv[1]](sys.argv[2])
