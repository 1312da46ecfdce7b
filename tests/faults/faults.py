#!/usr/bin/env python3
"""Starts real jobs and breaks them. After each: right data or a named error within the time limit, and nothing left behind.

    faults.py --bin FOLDER --preload LIB --launch COMMAND [--long] [--seed S] [GROUP ...]

COMMAND starts ranks, their number comes behind it: "mpirun -n". GROUP is kill, stop, refused, limits, fork, signals or network;
all without one. Without --long each has a few cases, with it all of them."""

import argparse
import contextlib
import functools
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import judges
from judges import Result

FACTOR = float(os.environ.get("TIMEOUT_FACTOR", "1"))
LIMIT = 60 * FACTOR  # seconds in which a job must have ended
RANKS = 4

# What the victim does, and what makes the library go that way.
PHASES = {
    "fresh": ("fresh", {}),
    "setup": ("setup", {"TAPA_REPORT": "1"}),
    "small": ("small", {"TAPA_PLAN": "memory"}),
    "large": ("large", {"TAPA_PLAN": "memory"}),
    "blocks": ("blocks", {"TAPA_PLAN": "memory"}),
    "messages": ("small", {"TAPA_PLAN": "bruck", "TAPA_TOPOLOGY": "4x1"}),
    "two-phases": ("large", {"TAPA_PLAN": "tapa:split=node", "TAPA_TOPOLOGY": "2x2"}),
    "leaders": ("blocks", {"TAPA_PLAN": "leaders:split=node", "TAPA_TOPOLOGY": "2x2"}),
    "nonblocking": ("nonblocking", {"TAPA_PLAN": "memory"}),
    "persistent": ("persistent", {"TAPA_PLAN": "memory"}),
    "mpi": ("blocks", {"TAPA_PLAN": "mpi"}),
    "first": ("large", {}),  # long blocks begin in memory where each rank has a core
}
REFUSED = ["attach", "memory-files", "shared-mappings", "threads", "short-files", "descriptors", "memory", "files"]
# Where ranks wait mostly in calls of ours, which can name the one that is late.
WATCHED = {"small", "large", "blocks", "messages", "two-phases", "leaders", "nonblocking", "persistent"}


def ranks_of(phase: str) -> int:
    return 2 if phase == "first" else RANKS


def processes_of(mark: str) -> list[int]:
    """Processes that have this mark in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if mark.encode() in Path(f"/proc/{entry}/environ").read_bytes():
                state = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found.append(int(entry))
        except OSError:
            continue
    return found


@dataclass
class Job:
    """A program with a folder of its own for temporary files, and a mark by which its processes are found."""

    command: list[str]
    environment: dict[str, str]
    limit: float = LIMIT
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="tapa-faults-")))

    def __post_init__(self) -> None:
        self.mark = f"FAULTS_JOB={self.folder.name}"
        name, value = self.mark.split("=")
        self.memory_before = set(os.listdir("/dev/shm"))
        environment = {**os.environ, **self.environment, name: value, "TMPDIR": str(self.folder)}
        self.process = subprocess.Popen(self.command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
        self.pids: dict[int, int] = {}
        self.err: list[str] = []
        self.out: list[str] = []
        self.readers = [threading.Thread(target=self.read, args=pipe)
                        for pipe in ((self.process.stderr, self.err), (self.process.stdout, self.out))]  # fmt: skip
        for reader in self.readers:
            reader.start()

    def read(self, pipe: Iterable[str], lines: list[str]) -> None:
        for line in pipe:
            lines.append(line)
            if found := re.search(r"victim: rank (\d+) pid (\d+)", line):
                self.pids[int(found[1])] = int(found[2])

    def began(self, ranks: int) -> bool:
        until = time.monotonic() + self.limit
        while len(self.pids) < ranks and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return len(self.pids) == ranks

    def end(self) -> Result:
        late = False
        try:
            self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            late = True
            for pid in [*processes_of(self.mark), self.process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        for reader in self.readers:
            reader.join(10)
        return Result(self.process.returncode, "".join(self.out), "".join(self.err), late, self.process.pid)

    def left(self, ignore: tuple[str, ...] = ()) -> list[str]:
        """What is there and was not before: processes, shared memory, temporary files."""
        until = time.monotonic() + 10 * FACTOR
        while (pids := processes_of(self.mark)) and time.monotonic() < until:
            time.sleep(0.05)
        found = [f"process {pid}" for pid in pids]
        found += [f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - self.memory_before if "tapa" in name]
        found += [str(p) for p in self.folder.rglob("*") if p.is_file() and "ompi." not in str(p) and p.name not in ignore]
        shutil.rmtree(self.folder, ignore_errors=True)
        return found


class MemoryGroup:
    """A control group whose processes have so many bytes together, what they share included. Raises OSError where none can be made."""

    def __init__(self, most: int | None) -> None:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        first = [where for _, names, where in lines if "memory" in names.split(",")]  # version 1
        root = "/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup"
        limits = (
            {"memory.limit_in_bytes": most, "memory.memsw.limit_in_bytes": most} if first else {"memory.max": most, "memory.swap.max": 0}
        )
        self.peak_file = "memory.max_usage_in_bytes" if first else "memory.peak"
        self.path = Path(tempfile.mkdtemp(prefix="tapa-faults-", dir=root + (first or [lines[-1][2]])[0]))
        try:
            self.peak()
            for name, value in limits.items():
                if most is not None and (self.path / name).exists():
                    (self.path / name).write_text(str(value))
        except OSError:
            self.path.rmdir()
            raise

    def peak(self) -> int:
        return int((self.path / self.peak_file).read_text())

    def enter(self, who: str) -> list[str]:
        """What starts a rank's program there: of all ranks, or of rank 1 alone."""
        here = f"echo $$ >{self.path}/cgroup.procs"
        one = "" if who == "all" else '[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" != 1 ] || '
        return ["sh", "-c", f'{one}{here}; exec "$@"', "sh"]

    def __enter__(self) -> "MemoryGroup":
        return self

    def __exit__(self, *_: object) -> None:
        until = time.monotonic() + 10 * FACTOR
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                return self.path.rmdir()
            time.sleep(0.05)


def long_work(folder: Path, launch: list[str]) -> dict[str, tuple[list[str], dict[str, judges.FileJudge]]]:
    """Of each tool: a command that takes several seconds on any machine, and judges of the files that it writes into FOLDER.
    dit-conformance writes none."""
    sizes = [16, 1 << 26]
    alltoall = judges_of_json({"benchmark": "tapa_alltoall"})
    compared = ["--versus", "mpi", "-m", "64:1048576", "-i", "100000", "--json", "FOLDER/result.json"]
    tune = ["--time", "60000", "--sizes", ",".join(map(str, sizes)), "-o", "FOLDER/result.json"]
    picture = {"result.svg": judges.fault_of_svg}
    work = {
        "tapa-tune": (tune, {"result.json": functools.partial(judges.fault_of_tuning, ranks=2, sizes=sizes)}),
        "tapa_alltoall": (compared, alltoall),
        "tapa-sim": (["aurora", "--nodes", "8", "--json", "FOLDER/result.json"], judges_of_json({"machine": "aurora"})),
        "tapa-plan": (["--topology", "128x8", "--bytes", "65536", "--verify", "--svg", "FOLDER/result.svg"], picture),
        "tapa-info": (["--topology", "512x512", "--all", "--svg", "FOLDER/result.svg", "--write", "FOLDER/result.json"],
                      {**picture, "result.json": functools.partial(judges.fault_of_topology, ranks=512 * 512)}),
        "dit": (["bench", "--steps", "1000", "--json", "FOLDER/result.json"], judges_of_json({})),
        "dit-conformance": (["--plugin", "local", "--ranks", "32"], {}),
    }  # fmt: skip
    by_mpirun = {"tapa-tune", "tapa_alltoall"}
    return {name: ([*(launch if name in by_mpirun else []), str(folder / name), *words], files) for name, (words, files) in work.items()}


def judges_of_json(facts: dict[str, object]) -> dict[str, judges.FileJudge]:
    return {"result.json": functools.partial(judges.fault_of_json, facts=facts, rows="rows")}


class Faults:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.launch = shlex.split(options.launch)
        self.victim = str(Path(options.bin) / "tests" / "faults_victim")
        self.random = random.Random(options.seed)
        self.passed = 0
        self.as_plain = 0  # wrong without the drop-in too
        self.not_tested = 0  # had ended before the fault came
        self.failures: list[str] = []

    def job(self, phase: str, seconds: float, *arguments: str, plain: bool = False, by: Iterable[str] = (), **environment: str) -> Job:
        """`plain`: without the drop-in. `by`: what starts each rank."""
        name, variables = PHASES[phase]
        words = [f"{k}={v}" for k, v in {**variables, **environment}.items()]
        if not plain:
            words.append(f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{self.options.preload}")
        command = [*self.launch, str(ranks_of(phase)), *by, "env", *words, self.victim, name, str(seconds), *arguments]
        return Job(command, {})

    def tell(self, case: str, wrong: str, result: Result) -> None:
        if not wrong:
            self.passed += 1
            print(f"ok: {case}: {result.end}", flush=True)
            return
        self.failures.append(case)
        print(f"FAILED: {case}: {wrong}", flush=True)
        print("\n".join((result.out + result.err).splitlines()[-15:]), flush=True)

    def finish(self, case: str, job: Job, judge: Callable[[Result], str], plain: Callable[[], Job] | None = None) -> None:
        """`judge(result)`: what is wrong with it, or nothing. `plain()`: the same job without the drop-in; what is wrong with
        that too is MPI's own, but for wrong data and memory of ours that is left."""
        result, wrong = self.outcome(job, judge)
        if judges.is_of_mpirun(result):
            self.as_plain += 1
            print(f"mpirun's: {case}: {wrong}", flush=True)
            return
        ours = wrong == "wrong data" or "/dev/shm" in wrong
        if wrong and not ours and plain and (same := self.outcome(plain(), judge)[1]):
            self.as_plain += 1
            print(f"as without the drop-in: {case}: {wrong}; without: {same}", flush=True)
            return
        self.tell(case, wrong, result)

    @staticmethod
    def outcome(job: Job, judge: Callable[[Result], str]) -> tuple[Result, str]:
        """Its result, and what is wrong with it or what it left."""
        result = job.end()
        return result, judges.fault_of_end(result, job.limit, judge, job.left())

    # ---------------------------------------------------------------- ranks that die or stand still

    def kill(self) -> None:
        delays = [0.0, 0.02, 0.3] if self.options.long else [0.1]
        for phase in PHASES if self.options.long else ["fresh", "setup", "large", "persistent", "mpi", "first"]:
            for delay in delays:
                rank = self.random.randrange(ranks_of(phase))
                job = self.job(phase, 300)
                began = job.began(ranks_of(phase))
                if began:
                    time.sleep(delay)
                    os.kill(job.pids[rank], signal.SIGKILL)
                judge = functools.partial(judges.fault_of_killed, began=began)
                self.finish(f"kill rank {rank} in {phase} after {delay} s", job, judge)

    def stop(self) -> None:
        """A rank that stands still is named by those that wait and have a time limit; afterwards all goes on."""
        for phase in PHASES if self.options.long else ["setup", "large", "nonblocking", "persistent", "first"]:
            for delay in [0.0, 0.2] if self.options.long else [0.2]:
                pauses = [("0.5", 2), ("0", 2)] if self.options.long else [("0.5", 2)]
                if self.options.long and phase == "large":
                    pauses.append(("0.5", 60))
                for timeout, pause in pauses:
                    rank = self.random.randrange(1, ranks_of(phase))
                    job = self.job(phase, 1 + delay, TAPA_TIMEOUT=timeout)
                    began = job.began(ranks_of(phase))
                    if began:
                        time.sleep(delay)
                        os.kill(job.pids[rank], signal.SIGSTOP)
                        time.sleep(pause)
                        os.kill(job.pids[rank], signal.SIGCONT)

                    watched = phase in WATCHED and timeout != "0" and delay > 0  # before, it may stand still in MPI's own call
                    judge = functools.partial(judges.fault_of_stopped, rank=rank, watched=watched, began=began)
                    self.finish(f"stop rank {rank} in {phase} after {delay} s for {pause} s, TAPA_TIMEOUT={timeout}", job, judge)

    # ---------------------------------------------------------------- what is refused

    def refused(self) -> None:
        phases = [p for p in PHASES if p != "fresh"] if self.options.long else ["large"]
        for what in REFUSED:
            for who in ("all", "one", "some") if self.options.long else ("one",):
                for when in ("first", "later"):
                    if not self.options.long and when == "later" and what not in ("attach", "memory-files"):
                        continue
                    for phase in phases:
                        arguments = ["--refuse", what, "--who", who, *(["--late"] if when == "later" else [])]
                        start = functools.partial(self.job, phase, 0.3, *arguments)
                        plain = functools.partial(start, plain=True)
                        judge = functools.partial(judges.fault_of_refused, what=what)
                        self.finish(f"{what} refused to {who}, {when} call, {phase}", start(), judge, plain)

    def limits(self) -> None:
        """Memory that a control group limits, of all ranks or of one, at parts of what they need: the kernel kills who asks for
        more, in MPI_Init, in the first call or later."""
        for phase in [p for p in PHASES if p != "fresh"] if self.options.long else ["large"]:
            for who in ("all", "one"):
                try:
                    needed = self.memory_of(phase, who)
                except OSError as error:
                    print(f"skipped: limits: no control group: {error}", flush=True)
                    return
                for share in (0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 0.97) if self.options.long else (0.4, 0.9):
                    with MemoryGroup(int(share * needed)) as group:
                        start = functools.partial(self.job, phase, 0.3, by=group.enter(who))
                        case = f"memory of {who} limited to {share:.0%} of {needed >> 20} MiB, {phase}"
                        self.finish(case, start(), judges.fault_of_limited, functools.partial(start, plain=True))

    def memory_of(self, phase: str, who: str) -> int:
        """What the ranks use at most."""
        with MemoryGroup(None) as group:
            job = self.job(phase, 0.3, by=group.enter(who))
            job.end()
            job.left()
            return group.peak()

    def fork(self) -> None:
        for phase in PHASES if self.options.long else ["large"]:
            for way in ("--fork", "--exec"):
                job = self.job(phase, 0.5, way)
                self.finish(f"{way[2:]} in {phase}", job, judges.fault_of_forked)

    # ---------------------------------------------------------------- signals to programs

    def signals(self) -> None:
        """INT, TERM and KILL end every tool soon, and what it was to write is there whole or not at all."""
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
        hit: dict[str, int] = {}
        for name, (command, files) in long_work(Path(self.options.bin), [*self.launch, "2"]).items():
            if not (Path(self.options.bin) / name).exists():
                continue
            hit[name] = 0
            for number in numbers:
                for delay in [0.05, 0.3, 1.5] if self.options.long else [0.5]:
                    hit[name] += self.signal_to(name, command, files, number, delay)
        if hit:  # else no tool is built
            self.tell("signals hit every tool", judges.fault_of_group(hit), Result(0, "", ""))

    def signal_to(self, name: str, command: list[str], files: dict[str, judges.FileJudge], number: signal.Signals, delay: float) -> bool:
        """Whether the signal came while the program worked."""
        with tempfile.TemporaryDirectory(prefix="tapa-faults-") as where:
            job = Job([part.replace("FOLDER", where) for part in command], {}, limit=20 * FACTOR)
            time.sleep(delay)
            running = job.process.poll() is None
            if running:
                os.kill(job.process.pid, number)
            if name == "tapa-sim" and number == signal.SIGKILL and running:
                self.sweep_after_kill(job, Path(self.options.bin) / name)
            case = f"{number.name} to {name} after {delay} s"
            judge = functools.partial(self.fault_of_signalled, folder=Path(where), number=number, files=files)
            result, wrong = self.outcome(job, judge)
        hit = judges.signal_hit(result, number, running)
        if hit or wrong or result.status != 0:
            self.tell(case, wrong if hit or wrong else "an error before the signal", result)
        else:
            self.not_tested += 1
            print(f"not tested: {case}: it had ended", flush=True)
        return hit

    @staticmethod
    def fault_of_signalled(result: Result, folder: Path, number: int, files: dict[str, judges.FileJudge]) -> str:
        found = {path.name: path.read_bytes() if path.name in files else b"" for path in folder.iterdir()}
        return judges.fault_of_signalled(result, number, found, files)

    @staticmethod
    def sweep_after_kill(job: Job, tool: Path) -> None:
        """What a killed run could not take away goes with the next one."""
        job.process.wait()
        time.sleep(0.2)  # its simulations end
        for left in job.folder.iterdir():
            os.utime(left, (1, 1))
        subprocess.run([tool, "polaris", "--nodes", "2", "--per-node", "2", "--bytes", "64", "--plans", "choice", "--rivals", "pair"],
                       env={**os.environ, "TMPDIR": str(job.folder)}, capture_output=True, timeout=LIMIT, check=True)  # fmt: skip

    # ---------------------------------------------------------------- NICs

    def network(self) -> None:
        """On the emulated cluster: a NIC goes and comes back, packets get lost. TCP repairs both; data stays right."""
        tool = Path(__file__).resolve().parents[2] / "tools" / "cluster"
        name = f"faults{os.getpid()}"
        up = subprocess.run([tool, "up", "--name", name, "--nodes", "2", "--nics", "2", "--rate", "1gbit"],
                            capture_output=True, text=True, check=False)  # fmt: skip
        if up.returncode != 0:
            print(f"skipped: network: {up.stderr.strip().splitlines()[-1] if up.stderr.strip() else 'no cluster'}", flush=True)
            return
        try:
            node = int(re.search(r"nd1 pid (\d+)", up.stdout)[1])
            for fault in ("down", "loss") if self.options.long else ("down",):
                self.break_network(tool, name, node, fault)
        finally:
            subprocess.run([tool, "down", "--name", name], capture_output=True, check=False)

    def break_network(self, tool: Path, name: str, node: int, fault: str) -> None:
        inside = ["nsenter", "-t", str(node), "-n"]
        if os.geteuid() != 0:
            inside[3:3] = ["-U", "--preserve-credentials"]
        command = [
            str(tool),
            "run",
            "--name",
            name,
            "--ranks",
            "2",
            "--env",
            f"LD_PRELOAD={self.options.preload}",
            "--",
            self.victim,
            "large",
            "6",
        ]
        job = Job(command, {"TAPA_PLAN": "tapa:split=node"}, limit=LIMIT)
        broken = False
        if job.began(RANKS):
            time.sleep(1)
            breaks = {
                "down": ["ip", "link", "set", "nic0", "down"],
                # A queue of four packets: what comes faster than it leaves is lost.
                "loss": ["tc", "qdisc", "replace", "dev", "nic0", "root", "tbf", "rate", "100mbit", "burst", "3200", "limit", "6400"],
            }
            done = subprocess.run([*inside, *breaks[fault]], capture_output=True, text=True, check=False)
            broken = done.returncode == 0
            if not broken:
                print(f"nic0 could not be broken: {done.stderr.strip()}", flush=True)
            time.sleep(2)
            if fault == "down":
                subprocess.run([*inside, "ip", "link", "set", "nic0", "up"], capture_output=True, check=False)
        self.finish(f"nic0 of a node: {fault}", job, lambda r: judges.fault_of_refused(r, fault) if broken else "it could not be broken")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = ["kill", "stop", "refused", "limits", "fork", "signals", "network"]
    for name in ("--bin", "--preload", "--launch"):
        parser.add_argument(name, required=True)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(groups):
        parser.error(f"GROUP is {unknown.pop()}, expected one of {', '.join(groups)}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's job in the background ignores it, and so would its programs
    faults = Faults(options)
    for group in options.groups or groups:
        getattr(faults, group)()
    counts = f"{faults.passed} passed, {faults.as_plain} wrong without the drop-in too, {faults.not_tested} not tested"
    print(f"{counts}, {len(faults.failures)} failed")
    if not faults.passed and not faults.as_plain and not faults.failures:
        return 77
    return 1 if faults.failures else 0


if __name__ == "__main__":
    sys.exit(main())
