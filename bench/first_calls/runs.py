"""The runs of bench/first-calls: what is run, and in which ways."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time

Times = dict[str, float]  # microseconds by what the program says
Round = dict[str, Times]  # by way: one run in each
BENCH = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Way:
    """How a program is run; its times are told as ratios to those of the way `over`."""

    name: str
    over: str
    environment: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Job:
    form: str
    habit: str
    size: int
    words: tuple[str, ...]  # the program and its arguments

    def __str__(self) -> str:
        return {"none": "no all-to-all", "fft": f"{self.size}^3"}.get(self.form, f"{self.form}, {self.habit}, {self.size} bytes")


def ways_of(options: argparse.Namespace) -> list[Way]:
    preload = (f"LD_PRELOAD={options.build}/lib/libtapa_preload.so", "TAPA_CACHE=0", *options.env)
    ways = [Way("plain", "plain"), Way("drop-in", "plain", preload)]
    ways += [Way(option, "drop-in", (*preload, option)) for option in options.option]
    if options.bound:
        ways.append(Way("bound", "plain", (f"LD_PRELOAD={options.bound}",)))
    return ways


def jobs_of(options: argparse.Namespace) -> list[Job]:
    if options.fft:
        script = (options.python, "-B", str(BENCH / "fft_steps.py"))
        for cube in options.cubes:
            if cube % options.ranks:
                print(f"first-calls: {cube}^3 left out: {options.ranks} ranks cannot share {cube} planes", file=sys.stderr)
        cubes = [cube for cube in options.cubes if cube % options.ranks == 0]
        return [Job("fft", "fft", cube, (*script, str(cube), str(options.steps))) for cube in cubes]
    program = f"{options.build}/bin/first_calls"
    jobs = [Job("none", "none", 0, (program, "none"))]
    for form in options.forms:
        for size in options.sizes:
            most = max(1, min(options.most, int(options.most_bytes / (size * options.ranks))))
            for habit in options.habits:
                own = (most, 0) if habit == "world" else (min(most, 1000), min(options.repeats, most))
                jobs.append(Job(form, habit, size, (program, form, str(size), *map(str, own))))
    return jobs


def launcher(options: argparse.Namespace, environment: dict[str, str]) -> list[str]:
    if options.cluster:
        own = ["--nodes", str(options.nodes), "--ranks", str(options.ranks // options.nodes), "--rate", options.rate]
        return [str(BENCH.parent / "tools/cluster"), "run", *own, *options.launcher, "--"]
    command = [shutil.which("mpirun") or "mpirun", *options.launcher]
    if options.ranks > len(os.sched_getaffinity(0)):
        command += ["--oversubscribe", "--bind-to", "none"]
        environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    return [*command, "-n", str(options.ranks)]


def run(options: argparse.Namespace, job: Job, way: Way) -> Times | None:
    """What the program says, and "command", its whole time; or None with a word on why."""
    environment = dict(os.environ)
    command = [*launcher(options, environment), "env", *way.environment, *job.words]
    began = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        print(f"first-calls: ended after {options.limit:g} s: {' '.join(command)}", file=sys.stderr)
        return None
    seconds = time.monotonic() - began
    if done.returncode != 0:
        own = [line for line in done.stderr.splitlines() if line.startswith(("first_calls: ", "fft_steps: "))]
        why = "\n".join(own[:4]) or done.stderr[-1500:]  # mpirun says much besides
        print(f"first-calls: status {done.returncode}: {' '.join(command)}\n{why}", file=sys.stderr)
        return None
    lines = (line.split("\t") for line in done.stdout.splitlines() if "\t" in line)
    return {**{case: float(microseconds) for case, microseconds in lines}, "command": seconds * 1e6}
