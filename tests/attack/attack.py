#!/usr/bin/env python3
"""attack.py BUILD [--minutes M] [--tests-were-run]: what strangers, faults and chance do to a build, each time in another way.

First the tests with the label `attack`. What is left of M minutes (default: ATTACK_MINUTES, else 15) goes to inputs made by the
fuzzers, programs at random, jobs that are killed while they write one file, and exchanges that are refused system calls; from an
hour on also to the long set of broken jobs. Ends with "N passed, N failed"; no process is left behind."""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = f"ATTACK_JOB=attack-{os.getpid()}"


def processes_left() -> list[int]:
    """Those that have this attack's mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if MARK.encode() in (entry / "environ").read_bytes() and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def end_processes() -> list[int]:
    left = processes_left()
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


class Attack:
    def __init__(self, build: Path, minutes: float) -> None:
        self.build = build
        self.seconds = 60 * minutes
        self.begun = time.monotonic()
        self.seed = int(time.time())
        self.passed = 0
        self.failures: list[str] = []

    def left(self) -> float:
        """Seconds; some also when the parts before took all."""
        return max(self.begun + self.seconds - time.monotonic(), self.seconds / 10)

    def run(self, command: list[str], seconds: float = 0, cwd: Path | None = None) -> tuple[int, str]:
        name, value = MARK.split("=")
        environment = {**os.environ, name: value, **({"ATTACK_SECONDS": f"{seconds:.0f}"} if seconds else {})}
        with subprocess.Popen(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as process:  # fmt: skip
            lines = []
            for line in process.stdout or ():
                lines.append(line)
                print(line, end="", flush=True)
        return process.returncode, "".join(lines)

    def part(self, name: str, command: list[str], seconds: float = 0, cwd: Path | None = None) -> None:
        """One thing that passes or fails; 77: it cannot be tried here."""
        print(f"--- {name}" + (f" ({seconds:.0f} s)" if seconds else ""), flush=True)
        status, _ = self.run(command, seconds, cwd)
        if status == 0:
            self.passed += 1
        elif status != 77:
            self.failures.append(name)

    def ctest(self, *arguments: str, seconds: float = 0) -> None:
        """Each test by itself."""
        print(f"--- ctest {' '.join(arguments)}" + (f" ({seconds:.0f} s)" if seconds else ""), flush=True)
        jobs = str(2 * (os.cpu_count() or 1))
        status, said = self.run(["ctest", "--test-dir", str(self.build), "--output-on-failure", "--parallel", jobs, *arguments], seconds)
        self.passed += len(re.findall(r"^ *\d+/\d+ Test +#\d+: .* Passed +[\d.]+ sec$", said, re.M))
        wrong = re.findall(r"^\t *\d+ - (\S+) \((?!Skipped|Disabled)[^)]*\)", said, re.M)
        self.failures += wrong
        if status != 0 and not wrong:
            self.failures.append(f"ctest {' '.join(arguments)} (exit status {status})")

    def fuzz(self, seconds: float) -> None:
        """Half of the time for the C interface, whose calls have computed answers."""
        corpus, found = ROOT / "tests" / "fuzz" / "corpus", self.build / "fuzz-found"
        programs = sorted((self.build / "bin" / "fuzz").glob("fuzz_*"))
        found.mkdir(exist_ok=True)
        for program in programs:
            name = program.name.removeprefix("fuzz_")
            share = max(seconds / 2 if name == "c_interface" else seconds / 2 / max(len(programs) - 1, 1), 1)
            words = ROOT / "tests" / "fuzz" / f"{name}.dict"
            dictionary = ["--dictionary", str(words)] if words.exists() else []
            command = [str(program), str(corpus / name), "--seconds", f"{share:.0f}", "--seed", str(self.seed), "--limit", "30"]
            self.part(f"fuzz {name}, seed {self.seed}", [*command, "--found", f"{found}/{name}-", *dictionary], share)

    def random_programs(self, seconds: float) -> None:
        program = self.build / "bin" / "tests" / "random_programs"
        if program.exists():
            command = [str(program), "--seconds", f"{seconds:.0f}", "--seed", str(self.seed)]
            self.part(f"random programs, seed {self.seed}", command, seconds)

    def racing_jobs(self, seconds: float) -> None:
        self.ctest("-R", "^program_cache_killed$", seconds=seconds)

    def refused_calls(self, seconds: float) -> None:
        self.ctest("-R", "^dit_plugins_.*_refused$", "--parallel", "1", seconds=seconds / 3)

    def broken_jobs(self) -> None:
        program = self.build / "bin" / "tests" / "faults"
        if program.exists():
            self.part("broken jobs", [str(program), "--long", "--seed", str(self.seed)])

    def end(self) -> int:
        if left := end_processes():
            self.failures.append(f"processes were left: {left}")
        for failure in self.failures:
            print(f"FAILED in the attack: {failure}")
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures or not self.passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("ATTACK_MINUTES", "15")))
    parser.add_argument("--tests-were-run", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    attack = Attack(options.build.resolve(), options.minutes)
    if not options.tests_were_run:
        attack.ctest("-L", "^attack$", "-LE", "^long$")
    parts: list[tuple[Callable[[float], None], float]] = [
        (attack.fuzz, 0.35),
        (attack.random_programs, 0.3),
        (attack.racing_jobs, 0.2),
        (attack.refused_calls, 0.15),
    ]
    if options.minutes >= 60:
        attack.broken_jobs()
    for at, (run, share) in enumerate(parts):
        run(attack.left() * share / sum(later for _, later in parts[at:]))
    return attack.end()


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:  # also when it is interrupted
        end_processes()
