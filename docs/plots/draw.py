#!/usr/bin/env python3
"""docs/plots/draw.py: draws the pictures of the README from the figures beside it (first_calls.csv, flux.csv). Needs matplotlib
(python3-matplotlib). quality-front.svg is bench/quality-front's."""

import csv
import pathlib

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tapa"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def rows_of(name: str) -> list[list[str]]:
    with open(HERE / f"{name}.csv", encoding="utf-8") as file:
        return list(csv.reader(line for line in file if not line.startswith("#")))


def save(name: str) -> None:
    plt.tight_layout()
    plt.savefig(HERE / f"{name}.svg", metadata={"Date": None})
    plt.close()


def first_calls() -> None:
    header, *rows = rows_of("first_calls")
    plt.figure(figsize=(5.2, 3.2))
    for size, *ratios in rows:
        plt.plot([int(n) for n in header[1:]], [float(ratio) for ratio in ratios], marker="o", label=f"{int(size):,} bytes per pair")
    plt.axhline(1, color="gray", linewidth=0.8)
    plt.xscale("log")
    plt.xticks([int(n) for n in header[1:]], [f"{int(n):,}" for n in header[1:]])
    plt.ylim(0, None)
    plt.xlabel("calls since the program began")
    plt.ylabel("their time with the drop-in / MPI's")
    plt.legend(fontsize=8)
    save("first_calls")


def flux() -> None:
    header, *rows = rows_of("flux")
    modes, width = header[1:], 0.8 / len(rows)
    plt.figure(figsize=(5.2, 3.2))
    for i, (way, *times) in enumerate(rows):
        places = [mode + (i - (len(rows) - 1) / 2) * width for mode in range(len(modes))]
        color = "#d62728" if way.startswith("dit_torch") else plt.cm.Blues(0.85 - 0.17 * i)
        plt.bar(places, [float(time) for time in times], width, label=way, color=color)
    plt.xticks(range(len(modes)), modes)
    plt.ylim(0, 1.4 * max(float(time) for _, *times in rows for time in times))
    plt.ylabel("ms of a forward pass")
    plt.legend(fontsize=8)
    save("flux")


first_calls()
flux()
