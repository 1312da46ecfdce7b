"""What is wrong with how a broken job ended and with the files it wrote. Pure functions, "" means nothing: faults_judges.py shows
each of them good and bad ends."""

import json
import re
import signal
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CRASHES = {signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV}
# Open MPI's own calls end the job with these: a named error is all that can be asked for.
MAY_END = {"memory", "files", "shared-mappings", "descriptors", "threads", "short-files"}
SVG = "{http://www.w3.org/2000/svg}svg"

FileJudge = Callable[[bytes], str]


@dataclass
class Result:
    status: int
    out: str
    err: str
    late: bool = False
    pid: int = -1  # of what was started: the program, or mpirun

    @property
    def wrong(self) -> bool:
        return "victim: WRONG" in self.out

    @property
    def right(self) -> bool:
        return self.status == 0 and "victim: right" in self.out and not self.wrong

    @property
    def named(self) -> bool:
        """Ended with an error, and somebody said which."""
        return self.status != 0 and bool(re.search(r"tapa|MPI_ERR|mpirun|mpiexec|signal", self.err + self.out, re.I))

    @property
    def crash(self) -> str:
        """The signal of a wrong access or of a program that gave itself up, where one ended a rank or a program without ranks. Not
        mpirun: that of Open MPI 4.1.4 itself often ends so when it is interrupted, whatever it runs."""
        text = self.err + self.out
        by_mpirun = [(0, number) for number in re.findall(r"exited on signal (\d+)", text)]
        by_ranks = re.findall(r"\[\S+:(\d+)\] Signal: .*\((\d+)\)", text)
        alone = [] if by_ranks else [(0, -self.status)]
        numbers = [int(number) for pid, number in [*by_mpirun, *by_ranks, *alone] if int(pid) != self.pid]
        return next((signal.Signals(number).name for number in numbers if number in CRASHES), "")

    @property
    def end(self) -> str:
        """How it ended, in a few words."""
        if self.right or self.status == 0:
            return "right data" if self.right else "status 0"
        lines = [line for line in (self.err + self.out).splitlines() if not line.startswith("victim:")]
        for words in (r"tapa", r"MPI_ERR|exited on signal|Signal:", r"mpirun|mpiexec|open files|memory|error"):
            if found := [line for line in lines if re.search(words, line, re.I)]:
                return f"ended: {found[0].strip()[:150]}"
        return f"ended with status {self.status}"


# ---------------------------------------------------------------- jobs


def is_of_mpirun(result: Result) -> bool:
    """Open MPI 4.1.4's mpirun tells of a rank that was killed while it connected, and sometimes stays, whatever it runs."""
    return result.late and "PMIX ERROR" in result.err and "exited on signal" in result.err


def fault_of_end(result: Result, limit: float, judge: Callable[[Result], str], left: list[str]) -> str:
    """What is wrong with any job: its end came late, the judge of its group has something to say, or it left something behind."""
    if result.late:
        return f"no end within {limit:.0f} s"
    return judge(result) or (f"left behind: {', '.join(left)}" if left else "")


def fault_of_killed(result: Result, began: bool) -> str:
    """After a rank was killed: the job ends, and somebody says so."""
    if not began:
        return "the job did not begin, so nothing was killed"
    if result.wrong:
        return "wrong data"
    return "" if result.named else f"status {result.status} without a word"


def fault_of_stopped(result: Result, rank: int, watched: bool, began: bool) -> str:
    """After a rank stood still: all goes on. `watched`: somebody has to name it."""
    if not began:
        return "the job did not begin, so nothing was stopped"
    if not result.right:
        return "wrong data" if result.wrong else f"status {result.status}, data not right"
    silent = watched and not re.search(r"unfinished after|waits for", result.err)
    return f"rank {rank} stood still for 2 s and nobody named it" if silent else ""


def fault_of_refused(result: Result, what: str) -> str:
    """After something was refused to ranks."""
    if result.wrong:
        return "wrong data"
    if result.crash:
        return f"a rank was ended by {result.crash}"
    if result.right or (what in MAY_END and result.named):
        return ""
    return f"status {result.status}, data not right"


def fault_of_limited(result: Result) -> str:
    """After the kernel may have killed ranks for their memory: right data, or the job ends and somebody says so. Where it kills
    all of them at once mpiexec may end with that signal and without a word, whatever it runs."""
    if result.wrong:
        return "wrong data"
    if result.crash:
        return f"a rank was ended by {result.crash}"
    killed = result.status in (128 + signal.SIGKILL, -signal.SIGKILL)
    return "" if result.right or result.named or killed else f"status {result.status} without a word"


def fault_of_forked(result: Result) -> str:
    if result.wrong:
        return "wrong data"
    return "" if result.right else f"status {result.status}, data not right"


def signal_hit(result: Result, number: int, running: bool) -> bool:
    """Whether the program still worked when the signal came. `running`: it did just before."""
    return running and (number != signal.SIGKILL or result.status == -signal.SIGKILL)


def fault_of_signalled(result: Result, number: int, found: dict[str, bytes], judges: dict[str, FileJudge]) -> str:
    """After a signal hit a program that was to write the files that have judges; `found` is what lies in their folder."""
    if result.crash:
        return f"ended by {result.crash}"
    others = sorted(set(found) - set(judges))
    if others and number != signal.SIGKILL:  # nothing can be taken away by who is killed
        return f"left: {', '.join(others)}"
    if strange := [name for name in others if name.removesuffix(".part") not in judges]:
        return f"left: {', '.join(strange)}"
    for name, judge in judges.items():
        if name not in found and result.status == 0:
            return f"status 0 without {name}"
        if name in found and (wrong := judge(found[name])):
            return f"{name}: {wrong}"
    return ""


# ---------------------------------------------------------------- files


def parsed(data: bytes) -> tuple[Any, str]:
    """The JSON, and what is wrong with it."""
    try:
        return json.loads(data), ""
    except ValueError as error:
        return None, f"no JSON: {error}"


def fault_of_json(data: bytes, facts: dict[str, object], rows: str) -> str:
    """An object that has these values and a list `rows` that is not empty."""
    value, wrong = parsed(data)
    if wrong or not isinstance(value, dict):
        return wrong or "no JSON object"
    for name, fact in facts.items():
        if value.get(name) != fact:
            return f"{name} is {value.get(name)!r}, expected {fact!r}"
    return "" if isinstance(value.get(rows), list) and value[rows] else f"no {rows}"


def fault_of_svg(data: bytes) -> str:
    """A picture that shows something."""
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        return f"no XML: {error}"
    if root.tag != SVG:
        return f"no SVG: the root is {root.tag}"
    return "" if len(root) > 0 else "an empty picture"


def fault_of_topology(data: bytes, ranks: int) -> str:
    """A topology file of ranks: each level holds each rank once; the last one is all of them, and says no more."""
    if wrong := fault_of_json(data, {"schema": "tapa-topology/1", "kind": "ranks", "ranks": ranks}, "levels"):
        return wrong
    *levels, last = json.loads(data)["levels"]
    for level in levels:
        groups = level.get("groups") if isinstance(level, dict) else None
        if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
            return "a level without groups"
        if sorted(rank for group in groups for rank in group) != list(range(ranks)):
            return f"level {level.get('name')!r} does not hold each rank once"
    return "" if isinstance(last, dict) and list(last) == ["name"] else "the last level is not its name only"


def positive(entry: object, *names: str) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(name), (int, float)) and entry[name] > 0 for name in names)


def fault_of_tuning(data: bytes, ranks: int, sizes: list[int]) -> str:
    """A tuning file as the library reads it; plans were timed at some of these sizes."""
    if wrong := fault_of_json(data, {"format": "tapa-tuning/1", "ranks": ranks}, "levels"):
        return wrong
    value = json.loads(data)
    if not positive(value, "copy", "cores_per_rank"):
        return "no speed of copies or no number of cores"
    if not all(positive(level, "groups", "latency", "bandwidth", "shared_bandwidth", "message") for level in value["levels"]):
        return "a level without its measured numbers"
    if value["levels"][-1]["groups"] != 1:
        return "the last level is not one group"
    times = value.get("measurements")
    if not isinstance(times, list) or (not times and ranks > 1):  # one rank has nothing to time
        return "no measurements"
    right = [positive(m, "bytes", "seconds") and m.get("choice") and m["bytes"] in sizes for m in times]
    return "" if all(right) else "a measurement without plan, size or time"


def fault_of_group(hit: dict[str, int]) -> str:
    """What is wrong with a group whose signals hit each tool so often."""
    never = [name for name, times in hit.items() if times == 0]
    return f"no signal hit {', '.join(never)}" if never else ""
