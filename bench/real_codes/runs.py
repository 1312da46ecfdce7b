"""One run of a code: its time, what it cost the machine, its results."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import time

from . import cases

WAYS = ("plain", "taken", "off")


@dataclasses.dataclass
class Run:
    seconds: float  # of the whole command
    own_seconds: float | None  # what the code says of its work
    cpu_seconds: float  # of all ranks and mpirun
    page_faults: int
    switches: int
    results: list[str]
    report: str


@dataclasses.dataclass
class Setting:
    ranks: int
    launcher: list[str]
    prefix: pathlib.Path
    build: pathlib.Path
    limit: float
    cache: str = "0"  # where the drop-in keeps what it has found, for the next run; 0: nowhere


class Failure(Exception):
    pass


def command_of(code: cases.Code, setting: Setting, way: str, report: bool, environment: dict[str, str]) -> list[str]:
    command = ["mpirun", *setting.launcher]
    if setting.ranks > len(os.sched_getaffinity(0)):
        command += ["--oversubscribe", "--bind-to", "none"]
        environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    command += ["-n", str(setting.ranks), "env"]
    if setting.prefix != pathlib.Path("/usr"):
        libraries = setting.prefix / "lib"
        command.append(f"LD_LIBRARY_PATH={libraries}/x86_64-linux-gnu:{libraries}")
    if way != "plain":
        command.append(f"LD_PRELOAD={setting.build}/lib/libtapa_preload.so")
    if way == "off":
        command.append("TAPA_ENABLE=0")
    if report:
        command.append("TAPA_REPORT=passive")  # of the program as it runs without a report
    return [*command, str(cases.path_of(code, setting.prefix, setting.build)), *code.arguments]


def matches(pattern: str, text: str) -> list[str]:
    return [found.group(0).rstrip() for line in text.splitlines() for found in re.finditer(pattern, line)]


def run(code: cases.Code, setting: Setting, way: str, report: bool = False) -> Run:
    """Throws Failure."""
    environment = {**os.environ, "TAPA_CACHE": setting.cache, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = command_of(code, setting, way, report, environment)
    with tempfile.TemporaryDirectory(prefix="codes-") as name:
        folder = pathlib.Path(name)
        cases.prepare(code, folder, setting.prefix, setting.ranks)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                status = process.wait(setting.limit)
            except subprocess.TimeoutExpired:
                raise Failure(f"ended after {setting.limit:g} s: {' '.join(command)}") from None
            finally:
                if process.poll() is None:
                    process.terminate()  # mpirun ends its ranks
                    process.wait()
        seconds = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = (folder / "out").read_text(errors="replace")
        complaint = (folder / "err").read_text(errors="replace")
        file = folder / code.output if code.output else None
        where = file.read_text(errors="replace") if file and file.is_file() else text
    if status != 0:
        raise Failure(f"status {status}: {' '.join(command)}\n{text[-400:]}{complaint[-800:]}")
    results = matches(code.results, where)
    if not results:
        raise Failure(f"no result in its output: {' '.join(command)}\n{text[-400:]}{complaint[-400:]}")
    own = [float(found.group(1)) for line in where.splitlines() if code.seconds for found in re.finditer(code.seconds, line)]
    return Run(
        seconds,
        sum(own) if own else None,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        after.ru_minflt - before.ru_minflt,
        after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw,
        results,
        complaint,
    )


def figures_of(report: str) -> dict[str, float]:
    """What the head of the drop-in's report says: calls, per cent taken, seconds and per cent of the time in all-to-all."""
    patterns = {
        "calls": r"^tapa report: (\d+) all-to-all",
        "taken": r"^ +taken +\d+ \(([\d.]+) %\)",
        "all_to_all_seconds": r"^ +time +([\d.]+) s",
        "all_to_all": r"^ +time .*?, ([\d.]+) % of",
    }
    found = {name: re.search(pattern, report, re.MULTILINE) for name, pattern in patterns.items()}
    return {name: float(match.group(1)) for name, match in found.items() if match}
