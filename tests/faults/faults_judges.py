#!/usr/bin/env python3
"""The judges of faults.py see what is wrong, and pass what is right: each has ends and files of both kinds, and the
files that the tools write when nothing disturbs them. Usage: faults_judges.py FOLDER-OF-PROGRAMS"""

import functools
import json
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import judges
from judges import Result

BIN = Path(sys.argv.pop(1))

RIGHT = Result(0, "victim: rank 0 pid 7\nvictim: right, 9 calls\n", "")
WRONG = Result(0, "victim: WRONG after 9 calls\n", "")
SILENT = Result(1, "", "")
NAMED = Result(16, "", "libtapa: no memory could be mapped\n")
CRASHED = Result(139, "", "mpirun noticed that process rank 1 with PID 7 exited on signal 11 (Segmentation fault).\n")

LEVEL = {"name": "node", "groups": 2, "latency": 1e-7, "bandwidth": 3e8, "shared_bandwidth": 4e8, "message": 6e-8}
TUNING = {
    "format": "tapa-tuning/1",
    "ranks": 2,
    "cores_per_rank": 0.5,
    "copy": 3e10,
    "levels": [LEVEL, {**LEVEL, "name": "world", "groups": 1}],
    "measurements": [{"choice": "memory", "bytes": 64, "seconds": 2e-7}],
}
TOPOLOGY = {
    "schema": "tapa-topology/1",
    "kind": "ranks",
    "ranks": 4,
    "levels": [{"name": "node", "groups": [[0, 1], [2, 3]]}, {"name": "world"}],
}
ROWS = {"machine": "aurora", "rows": [{"bytes": 64}]}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9"><g><rect width="3"/></g></svg>\n'


def text(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


class Jobs(unittest.TestCase):
    def test_results(self) -> None:
        self.assertTrue(RIGHT.right)
        self.assertFalse(Result(0, "", "").right)
        self.assertFalse(Result(1, RIGHT.out, "").right)
        self.assertFalse(Result(0, RIGHT.out + WRONG.out, "").right)
        self.assertFalse(SILENT.named)
        self.assertEqual([r.crash for r in (RIGHT, NAMED, CRASHED)], ["", "", "SIGSEGV"])
        self.assertEqual(Result(-6, "", "").crash, "SIGABRT")
        self.assertEqual(Result(-9, "", "").crash, "")
        by_rank = "[host:41] Signal: Bus error (7)\n"
        self.assertEqual(Result(135, "", by_rank, pid=40).crash, "SIGBUS")
        self.assertEqual(Result(135, "", by_rank, pid=41).crash, "")  # mpirun itself

    def test_ends(self) -> None:
        def end(result: Result, left: list[str], says: str = "") -> str:
            return judges.fault_of_end(result, 60, lambda _: says, left)

        self.assertEqual(end(RIGHT, []), "")
        self.assertEqual(end(Result(0, RIGHT.out, "", late=True), []), "no end within 60 s")
        self.assertEqual(end(RIGHT, ["process 7", "/dev/shm/tapa-1"]), "left behind: process 7, /dev/shm/tapa-1")
        self.assertEqual(end(RIGHT, ["process 7"], "wrong data"), "wrong data")

    def test_killed(self) -> None:
        self.assertEqual(judges.fault_of_killed(Result(137, "", "mpirun noticed that a rank exited on signal 9\n"), True), "")
        self.assertIn("did not begin", judges.fault_of_killed(NAMED, False))
        self.assertIn("without a word", judges.fault_of_killed(SILENT, True))
        self.assertIn("without a word", judges.fault_of_killed(RIGHT, True))
        self.assertEqual(judges.fault_of_killed(Result(1, WRONG.out, NAMED.err), True), "wrong data")

    def test_stopped(self) -> None:
        named = Result(0, RIGHT.out, "libtapa: rank 0 waits for rank 2\n")

        def fault(result: Result, watched: bool = True, began: bool = True) -> str:
            return judges.fault_of_stopped(result, 2, watched, began)

        self.assertEqual(fault(named), "")
        self.assertEqual(fault(RIGHT, watched=False), "")
        self.assertIn("nobody named it", fault(RIGHT))
        self.assertIn("did not begin", fault(named, began=False))
        self.assertEqual(fault(WRONG), "wrong data")
        self.assertIn("status 16", fault(NAMED))

    def test_refused(self) -> None:
        self.assertEqual(judges.fault_of_refused(RIGHT, "attach"), "")
        self.assertEqual(judges.fault_of_refused(NAMED, "memory"), "")
        self.assertIn("status 16", judges.fault_of_refused(NAMED, "attach"))
        self.assertIn("status 1", judges.fault_of_refused(SILENT, "memory"))
        self.assertEqual(judges.fault_of_refused(WRONG, "memory"), "wrong data")
        self.assertEqual(judges.fault_of_refused(CRASHED, "memory"), "a rank was ended by SIGSEGV")

    def test_limited(self) -> None:
        for good in (RIGHT, NAMED, Result(137, "", ""), Result(-9, "", "")):
            self.assertEqual(judges.fault_of_limited(good), "")
        self.assertEqual(judges.fault_of_limited(Result(137, WRONG.out, "")), "wrong data")
        self.assertEqual(judges.fault_of_limited(WRONG), "wrong data")
        self.assertEqual(judges.fault_of_limited(CRASHED), "a rank was ended by SIGSEGV")
        self.assertIn("without a word", judges.fault_of_limited(Result(9, "", "")))

    def test_mpirun_that_stays(self) -> None:
        words = "PMIX ERROR: UNREACHABLE\nrank 1 exited on signal 9"
        self.assertTrue(judges.is_of_mpirun(Result(-9, "", words, late=True)))
        for other in (Result(-9, "", words), Result(-9, "", "exited on signal 9", late=True), Result(-9, "", "PMIX ERROR", late=True)):
            self.assertFalse(judges.is_of_mpirun(other))

    def test_forked(self) -> None:
        self.assertEqual(judges.fault_of_forked(RIGHT), "")
        self.assertEqual(judges.fault_of_forked(WRONG), "wrong data")
        for bad in (NAMED, CRASHED, Result(0, "", "")):
            self.assertIn("data not right", judges.fault_of_forked(bad))


class Signals(unittest.TestCase):
    FILES = {"result.svg": judges.fault_of_svg}

    def fault(self, status: int, found: dict[str, bytes], number: int = signal.SIGTERM, err: str = "") -> str:
        return judges.fault_of_signalled(Result(status, "", err), number, found, self.FILES)

    def test_what_was_hit(self) -> None:
        killed, ended = Result(-9, "", ""), Result(0, "", "")
        self.assertTrue(judges.signal_hit(killed, signal.SIGKILL, True))
        self.assertTrue(judges.signal_hit(Result(-15, "", ""), signal.SIGTERM, True))
        self.assertFalse(judges.signal_hit(ended, signal.SIGKILL, True))  # it ended just then
        self.assertFalse(judges.signal_hit(ended, signal.SIGTERM, False))

    def test_each_tool_is_hit(self) -> None:
        self.assertEqual(judges.fault_of_group({"tapa-plan": 1, "dit": 3}), "")
        self.assertEqual(judges.fault_of_group({"tapa-plan": 1, "dit": 0}), "no signal hit dit")

    def test_files_are_whole_or_not_there(self) -> None:
        self.assertEqual(self.fault(-15, {}), "")
        self.assertEqual(self.fault(-15, {"result.svg": SVG}), "")
        self.assertEqual(self.fault(0, {"result.svg": SVG}), "")
        self.assertEqual(self.fault(0, {}), "status 0 without result.svg")
        self.assertIn("no XML", self.fault(-15, {"result.svg": b""}))
        self.assertIn("no XML", self.fault(-9, {"result.svg": SVG[:40]}, signal.SIGKILL))

    def test_drafts_are_left_by_who_is_killed_only(self) -> None:
        draft = {"result.svg.part": SVG[:40]}
        self.assertEqual(self.fault(-9, draft, signal.SIGKILL), "")
        self.assertEqual(self.fault(-15, draft), "left: result.svg.part")
        self.assertEqual(self.fault(-9, {"core": b""}, signal.SIGKILL), "left: core")

    def test_crashes(self) -> None:
        self.assertEqual(self.fault(-11, {}), "ended by SIGSEGV")
        self.assertEqual(self.fault(139, {}, err=CRASHED.err), "ended by SIGSEGV")


class Files(unittest.TestCase):
    def cut(self, whole: bytes, judge: judges.FileJudge) -> None:
        """Whole it is right, and cut anywhere before its last bracket it is not."""
        self.assertEqual(judge(whole), "")
        for length in range(len(whole.rstrip())):
            self.assertNotEqual(judge(whole[:length]), "", f"{length} bytes of {len(whole)}")
        self.assertNotEqual(judge(whole + whole), "")
        self.assertNotEqual(judge(b"\0" * len(whole)), "")

    def damaged(self, whole: dict[str, Any], judge: judges.FileJudge, *changes: dict[str, Any]) -> None:
        for change in changes:
            self.assertNotEqual(judge(text({**whole, **change})), "", change)
        for name in whole:
            self.assertNotEqual(judge(text({k: v for k, v in whole.items() if k != name})), "", f"without {name}")

    def test_json(self) -> None:
        def judge(data: bytes) -> str:
            return judges.fault_of_json(data, {"machine": "aurora"}, "rows")

        self.cut(text(ROWS), judge)
        self.damaged(ROWS, judge, {"machine": "polaris"}, {"rows": []}, {"rows": {"bytes": 64}})
        self.assertEqual(judge(b"[]"), "no JSON object")

    def test_svg(self) -> None:
        self.cut(SVG, judges.fault_of_svg)
        self.assertIn("no SVG", judges.fault_of_svg(b"<html><p/></html>"))
        self.assertEqual(judges.fault_of_svg(b'<svg xmlns="http://www.w3.org/2000/svg"/>'), "an empty picture")

    def test_topology(self) -> None:
        def judge(data: bytes) -> str:
            return judges.fault_of_topology(data, 4)

        self.cut(text(TOPOLOGY), judge)
        levels = [[[0, 1], [2]], [[0, 1], [2, 2]], [[0, 1], [2, 4]], [], 4]
        changes = [{"levels": [{"name": "node", "groups": groups}, {"name": "world"}]} for groups in levels]
        changes += [{"levels": TOPOLOGY["levels"][:1]}, {"levels": [{"name": "node"}, {"name": "world"}]}]
        self.damaged(TOPOLOGY, judge, {"ranks": 5}, {"kind": "node"}, {"schema": "tapa-plan/1"}, {"levels": [4]}, *changes)

    def test_tuning(self) -> None:
        def judge(data: bytes) -> str:
            return judges.fault_of_tuning(data, 2, [64])

        self.cut(text(TUNING), judge)
        time = TUNING["measurements"][0]
        times = [{"measurements": [{**time, **change}]} for change in ({"bytes": 32}, {"seconds": 0}, {"choice": ""})]
        levels = [{"levels": [{**LEVEL, "groups": 1, name: None}]} for name in LEVEL if name != "name"]
        wrong = [{"ranks": 3}, {"format": "tapa-plan/1"}, {"copy": -1}, {"levels": [LEVEL]}, {"measurements": []}]
        self.damaged(TUNING, judge, *wrong, *times, *levels)


class Undisturbed(unittest.TestCase):
    """What each tool really writes, in a short run, is right to its judge."""

    def test_real_files(self) -> None:
        rows = functools.partial(judges.fault_of_json, rows="rows")
        sim = ["polaris", "--nodes", "2", "--per-node", "2", "--bytes", "64", "--plans", "choice", "--rivals", "pair", "--json"]
        runs: dict[str, tuple[list[str], judges.FileJudge]] = {
            "tapa-plan": (["--topology", "2x3", "--svg"], judges.fault_of_svg),
            "tapa-info": (["--topology", "2x2x3", "--write"], functools.partial(judges.fault_of_topology, ranks=12)),
            "tapa-tune": (["--time", "1", "--sizes", "64", "-o"], functools.partial(judges.fault_of_tuning, ranks=1, sizes=[64])),
            "tapa-sim": (sim, functools.partial(rows, facts={"machine": "polaris"})),
            "tapa_alltoall": (["-m", "64:64", "-i", "2", "--versus", "mpi", "--json"],
                              functools.partial(rows, facts={"benchmark": "tapa_alltoall"})),
        }  # fmt: skip
        for name, (arguments, judge) in runs.items():
            if (BIN / name).exists():
                with self.subTest(name=name), tempfile.TemporaryDirectory(prefix="tapa-judges-") as folder:
                    file = Path(folder) / "result"
                    subprocess.run([BIN / name, *arguments, file], capture_output=True, timeout=50, check=True)
                    self.assertEqual(judge(file.read_bytes()), "")


if __name__ == "__main__":
    unittest.main()
