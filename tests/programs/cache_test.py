"""cache_test.py CASE PRELOAD LAUNCHER PROGRAM: what a run leaves in the file that TAPA_CACHE names, and what the next one makes of it.

PROGRAM is program_repeat, run on 4 ranks, each time with the drop-in (PRELOAD; "linked": it calls TAPA_Alltoall itself). Whatever
the file is, its results must be right."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

CASE, PRELOAD, LAUNCHER, PROGRAM = sys.argv[1:]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="learnt-test-"))
FILE = FOLDER / "learnt.json"


def start(
    calls: int = 400, bytes_: int = 1 << 17, more: str = "", cwd: pathlib.Path | None = None, **settings: str | None
) -> subprocess.Popen:
    environment = {**os.environ, "TAPA_CACHE": str(FILE), **settings}
    environment = {name: value for name, value in environment.items() if value is not None}
    own = [] if PRELOAD == "linked" else ["env", f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{PRELOAD}"]
    command = [*LAUNCHER.split(), "4", *own, PROGRAM, str(bytes_), str(calls), *more.split()]
    return subprocess.Popen(
        command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen) -> str:
    """What it said on standard error; its results were right."""
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0 and out == "0 wrong bytes\n", f"status {process.returncode}: {out}{err}"
    return err


def run(**more: str | int | pathlib.Path | None) -> str:
    return end(start(**more))


def reported(**more: str | int | pathlib.Path | None) -> tuple[re.Match | None, str]:
    """The line of the report, and the whole."""
    text = run(**{"TAPA_REPORT": "1", **more})
    return re.search(r"^  cache +(.*)$", text, re.M), text


def used(line: re.Match | None) -> int:
    found = line and re.match(r"earlier runs' results begin (\d+) sizes", line[1])
    return int(found[1]) if found else 0


def begins_with_results(**more: str | pathlib.Path) -> None:
    """One of the next runs does: on a busy machine a run may come to no decision."""
    for _ in range(4):
        line, text = reported(**more)
        if used(line) >= 1:
            return
    raise AssertionError(text)


def content() -> dict:
    return json.loads(FILE.read_text())


def change(edit: Callable[[dict], object]) -> None:
    """Edits the shapes of the file."""
    document = content()
    for shape in document["shapes"]:
        edit(shape)
    FILE.write_text(json.dumps(document))


def plans_are(*plans: tuple[str, float]) -> Callable[[dict], object]:
    """Puts these in place of what was found: (plan, seconds)."""

    def edit(shape: dict) -> None:
        for size in shape["sizes"]:
            size.update(decided=True)
            size["plans"] = [{"choice": p, "seconds": s, "samples": 65, "given_up": i > 0} for i, (p, s) in enumerate(plans)]

    return edit


def nothing_else() -> None:
    others = [entry.name for entry in FOLDER.iterdir() if entry != FILE]
    assert not others, f"drafts are left: {others}"


def case_second_run() -> None:
    line, text = reported()
    assert line and line[1].startswith("no earlier run's results fit"), text
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600, oct(FILE.stat().st_mode)
    shape = content()["shapes"][0]
    assert shape["ranks"] == shape["job"] == 4 and shape["sizes"], shape
    begins_with_results()
    nothing_else()


def case_twice() -> None:
    """A communicator begins with what another one of its shape has found in this process, without any file."""
    begins = re.compile(r"info: a communicator begins with what is known of (\d+) sizes")
    text = run(more="twice", TAPA_CACHE="0", TAPA_LOG="info")
    assert [int(n) >= 1 for n in begins.findall(text)] == [True] * 4, text
    assert not begins.findall(run(TAPA_CACHE="0", TAPA_LOG="info"))
    assert not FILE.exists()


def case_never_paid() -> None:
    reported()
    change(plans_are(("mpi", 1e-5), ("memory", 2e-5)))
    before = content()
    line, text = reported()
    assert used(line) >= 1 and "tried in comparison" not in text and "MPI is the fastest" in text, text
    assert [s["sizes"][0]["plans"] for s in content()["shapes"]] == [s["sizes"][0]["plans"] for s in before["shapes"]]


def case_damaged() -> None:
    reported()
    change(plans_are(("memory", 1e-5), ("mpi", 2e-5)))
    good = FILE.read_text()
    for bad in (
        "",
        good[: len(good) // 2],
        good.replace("tapa-learnt/2", "tapa-learnt/9"),
        good.replace('"memory"', '"fast"'),
        good + " " * 70000,
    ):
        FILE.write_text(bad)
        text = run(TAPA_REPORT="1", TAPA_LOG="info")
        assert re.search(r"info: cache .*(not used|is longer)", text), text
        assert content()["shapes"], "it is a good one again"
        FILE.write_text(bad)
        assert "cache" not in run(calls=20), "nothing is said unless it is asked for"


def case_others_file() -> None:
    """A file that TAPA_CACHE names by mistake is not lost."""
    for other in ("{", "export PATH=...\n", " " * 70000):
        FILE.write_text(other)
        text = run(TAPA_REPORT="1", TAPA_LOG="info")
        assert "cannot be written: is not one of libtapa's" in text, text
        assert FILE.read_text() == other


def case_no_file() -> None:
    """What is no file is left alone, and nothing waits for it. All in a folder of the test's own: what a defect replaces is nobody's."""
    kinds = [lambda: os.mkfifo(FILE), FILE.mkdir, lambda: socket.socket(socket.AF_UNIX).bind(str(FILE))]
    if os.geteuid() == 0:
        kinds += [
            lambda: os.mknod(FILE, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
            lambda: os.mknod(FILE, 0o600 | stat.S_IFCHR, os.makedev(1, 7)),
        ]
    for make in kinds:
        try:
            make()
        except PermissionError:  # no devices in this container
            continue
        before = FILE.stat()
        text = run(TAPA_REPORT="1", TAPA_LOG="info")
        assert re.search(r"info: cache .*: (is no regular file|is a folder|No such device)", text), text
        assert re.search("cannot be written: is (no file|a folder)", text), text
        run(calls=20)
        after = FILE.stat()
        assert (before.st_mode, before.st_ino, before.st_rdev) == (after.st_mode, after.st_ino, after.st_rdev), (
            f"replaced: {oct(before.st_mode)}"
        )
        nothing_else()
        FILE.rmdir() if FILE.is_dir() else FILE.unlink()


def case_elsewhere() -> None:
    reported()
    line, text = reported(TAPA_NIC_RATE="1gbit")
    assert used(line) == 0, text
    assert len(content()["shapes"]) == 2, "plans may be others"
    for key, value in (("libtapa", "0.0.9"), ("mpi", "Another MPI"), ("cpu", "another"), ("topology", "0"), ("job", 8)):
        reported()
        change(lambda shape, key=key, value=value: shape.update({key: value}))
        line, text = reported()
        assert used(line) == 0, key + text
        assert any(shape[key] == value for shape in content()["shapes"]), "what is another's stays"
        FILE.unlink()


def case_cannot_be_kept() -> None:
    for path in ("/proc/learnt.json", str(FOLDER / "missing" / "learnt.json")):
        text = run(TAPA_REPORT="1", TAPA_CACHE=path, TAPA_LOG="info")
        assert "cannot be written" in text, text
        assert "cache" not in run(calls=20, TAPA_CACHE=path)
    if os.geteuid() != 0:
        FOLDER.chmod(0o500)
        assert "cannot be written: Permission denied" in run(TAPA_REPORT="1", TAPA_LOG="info")
        FOLDER.chmod(0o700)
    nothing_else()


def case_off() -> None:
    """Unless a file is named there is none; a word that names none is wrong."""
    for value in (None, "0", "off"):
        line, text = reported(TAPA_CACHE=value, HOME=str(FOLDER), XDG_CACHE_HOME=None)
        assert line is None, text
    text = run(TAPA_REPORT="1", TAPA_CACHE="1", HOME=str(FOLDER), XDG_CACHE_HOME=None)
    assert 'TAPA_CACHE is "1", expected 0 or the path of a file, with a / in it; all-to-all stays with MPI' in text, text
    assert not list(FOLDER.rglob("learnt.json"))  # drivers of GPUs keep things in a home, too


def case_link() -> None:
    """A link stays one."""
    real = FOLDER / "real.json"
    real.write_text("")
    FILE.symlink_to(real)
    reported()
    assert FILE.is_symlink() and json.loads(real.read_text())["shapes"]


# Runs as another user: waits until the file was read so often, and puts a link into its place.
SWAP = """
import ctypes, os, sys
file, target, after = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.setgroups([]), os.setgid(65534), os.setuid(65534)
os.symlink(target, file + "-link")
libc, closed_after_reading = ctypes.CDLL(None), 0x10
queue = libc.inotify_init1(0)
assert libc.inotify_add_watch(queue, file.encode(), closed_after_reading) > 0
print("ready", flush=True)
for _ in range(after):
    os.read(queue, 16)  # one event
os.rename(file + "-link", file)
"""


def case_swapped() -> None:
    """In a folder in which others may write nobody makes a run write over what the user has elsewhere."""
    if os.geteuid() != 0:
        sys.exit(77)  # another user's part cannot be played
    reported()
    good = FILE.read_text()
    own = FOLDER / "home" / "own.json"  # what looks like one of ours is the easiest prey
    own.parent.mkdir(mode=0o700)
    own.write_text(good)
    FOLDER.chmod(0o777)
    swaps = 0
    for after in (3, 2, 1, 0):
        FILE.unlink()
        FILE.write_text(good)
        os.chown(FILE, 65534, 65534)
        swap = [sys.executable, "-c", SWAP, str(FILE), str(own), str(after)]
        with subprocess.Popen(swap, stdout=subprocess.PIPE, text=True) as attack:
            assert attack.stdout and attack.stdout.readline() == "ready\n"
            if after == 0:
                attack.wait(10)
            text = run(TAPA_REPORT="1", TAPA_LOG="info", TAPA_NIC_RATE=f"{1 + after}gbit")
            try:
                attack.wait(2)  # on its way after the last read
                swaps += 1
            except subprocess.TimeoutExpired:
                attack.kill()
        assert own.read_text() == good, f"after {after} reads: {text}"
    assert swaps >= 3 and "cannot be written: is a link of another user" in text, text


def case_shared() -> None:
    """A group's file stays the group's."""
    reported()
    group = 65534 if os.geteuid() == 0 else os.getegid()
    os.chown(FILE, -1, group)
    FILE.chmod(0o664)
    reported(TAPA_NIC_RATE="1gbit")
    assert len(content()["shapes"]) == 2
    facts = FILE.stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_gid) == (0o664, group), f"{oct(facts.st_mode)} {facts.st_gid}"


def case_drafts() -> None:
    """What a killed job has left is gone after an hour, and nothing else."""
    killed, young, others = "learnt.json.aaaaaa.part", "learnt.json.bbbbbb.part", ("learnt.json.backup", "other.aaaaaa.part")
    for name in (killed, young, *others):
        (FOLDER / name).write_text("half")
        if name != young:
            os.utime(FOLDER / name, (1e9, 1e9))
    reported()
    assert {entry.name for entry in FOLDER.iterdir()} == {young, *others, FILE.name}, list(FOLDER.iterdir())


def case_full() -> None:
    """What a run has found has room, whatever others have found the same day."""
    reported()
    document = content()
    own = document["shapes"][0]["topology"]
    document["shapes"] = [{**document["shapes"][0], "topology": str(number)} for number in range(64)]
    FILE.write_text(json.dumps(document))
    line, text = reported(TAPA_LOG="info")
    assert "written" in text and used(line) == 0, text
    assert own in [shape["topology"] for shape in content()["shapes"]], "the run's own results are left out"
    begins_with_results()


def case_elsewhere_at_the_end() -> None:
    """A program may leave the folder in which it began."""
    results = FOLDER / "results"
    results.mkdir()
    begins_with_results(more=str(results), cwd=FOLDER, TAPA_CACHE="./learnt.json")
    assert FILE.is_file()
    assert not list(results.iterdir()), "in the wrong place"


def case_merged() -> None:
    """Communicators with ranks of other jobs are left out: how many there are says nothing of this job, and the file stays readable."""
    for _ in range(2):
        text = run(more="merged", TAPA_LOG="info")
        assert "not used" not in text, text
    reported()
    assert [(shape["job"], shape["ranks"]) for shape in content()["shapes"]] == [(4, 4)], FILE.read_text()


def case_together() -> None:
    """Jobs that end at once: of each, or of the last."""
    jobs = [start(calls=200, TAPA_REPORT="1", TAPA_NIC_RATE=f"{1 + i}gbit") for i in range(4)]
    for job in jobs:
        end(job)
    assert 1 <= len(content()["shapes"]) <= 4
    nothing_else()
    line, text = reported(TAPA_NIC_RATE="1gbit")
    assert line, text


def ranks_of(job: subprocess.Popen) -> list[int]:
    """The launcher's children that live, as far as they have become the program."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=,comm=", "--ppid", str(job.pid)], capture_output=True, text=True, check=False)
    lines = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, state, name in lines if state[0] != "Z" and name == pathlib.Path(PROGRAM).name[:15]]


def end_of_killed(job: subprocess.Popen) -> tuple[str, str]:
    """What a job has said of which ranks were killed. When all its ranks are gone mpiexec may stay for ever: in its own end it waits
    for a mutex of PMIx whose owner is gone (Open MPI 4.1.4, PMIx 4.2.2; one of 300 such jobs on a busy machine)."""
    for _ in range(10):
        try:
            return job.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            if not ranks_of(job):
                job.kill()
    raise AssertionError(f"ranks {ranks_of(job)} do not end")


def case_killed() -> None:
    """Jobs that write one file at once, some of them killed: it is whole, the others' results are right, the next run reads it.
    As long as ATTACK_SECONDS says, and then more of them."""
    seconds = float(os.environ.get("ATTACK_SECONDS", "0"))
    until = time.monotonic() + seconds
    killed = 0
    for round_ in itertools.count():
        jobs = [start(calls=100, TAPA_REPORT="1", TAPA_NIC_RATE=f"{1 + i + round_ % 8}gbit") for i in range(8 if seconds else 3)]
        for job in jobs[1:]:
            begun = time.monotonic()
            while not (ranks := ranks_of(job)) and job.poll() is None and time.monotonic() < begun + 30:
                time.sleep(0.01)
            time.sleep(random.uniform(0, 0.5))
            for pid in ranks[: random.randint(1, 4)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        end(jobs[0])
        for job in jobs[1:]:
            out, err = end_of_killed(job)
            assert out in ("", "0 wrong bytes\n"), out + err
        assert content()["shapes"]
        others = [entry.name for entry in FOLDER.iterdir() if entry != FILE and not entry.name.endswith(".part")]
        assert not others, others
        if killed and time.monotonic() > until:  # a job may have ended before
            break
    text = run(TAPA_REPORT="1", TAPA_LOG="info")
    assert "not used" not in text, text


try:
    globals()["case_" + CASE]()
finally:
    subprocess.run(["rm", "-rf", str(FOLDER)], check=False)
