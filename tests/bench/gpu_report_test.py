"""gpu_report_test.py SOURCE: bench/device/report.py on figures that are known, and bench/run-gpu on a machine that pretends to have a GPU:
programs in place of CUDA's, CMake and the project's own."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

SOURCE = Path(sys.argv.pop(1)).resolve()
sys.dont_write_bytecode = True
SPEC = importlib.util.spec_from_file_location("report", SOURCE / "bench/device/report.py")
report = importlib.util.module_from_spec(SPEC)
sys.modules["report"] = report  # dataclasses look there
SPEC.loader.exec_module(report)

ALLTOALL = {
    "device": "NVIDIA H200",
    "ranks": 2,
    "nccl": "2.28.9",
    "unit": "us",
    "rows": [
        {"bytes": 2048, "mode": "graph", "tapa": 4.0, "tapa-staged": 5.0, "nccl": 6.0, "nccl-zero-cta": 24.0, "copy": 2.0},
        {"bytes": 1 << 30, "mode": "graph", "tapa": 2000.0, "tapa-staged": 2500.0, "nccl": 2200.0, "nccl-zero-cta": 2100.0, "copy": 1900.0},
        {"bytes": 2048, "mode": "eager", "tapa": 20.0, "tapa-staged": 21.0, "nccl": 19.0, "nccl-zero-cta": 30.0, "copy": 8.0},
    ],
}
ROWS = {**ALLTOALL, "rows": [{"bytes": 786432, "mode": "graph", "tapa-kernel": 8.0, "scatter": 10.0, "copy": 4.0}]}
LINE = {**ALLTOALL, "rows": [{"bytes": 1 << 20, "mode": "eager", "tapa": 250.0, "nccl": 400.0}]}
LINE["rows"].append({"bytes": 1 << 29, "mode": "eager", "tapa": 108539.0, "nccl": 143773.0})
GEMM = [
    {"side": 8192, "bytes": 1 << 26, "exchanges": exchanges, "way": way, "milliseconds": time, "slower": 0.0}
    for exchanges, times in ((1, (1.0, 1.02, 1.1, 1.05, 1.03)), (4, (1.0, 1.2, 1.1, 1.1, 1.08)))
    for way, time in zip(("alone", "tapa", "tapa-kernel", "nccl", "nccl-zero-cta"), times, strict=True)
]
ULYSSES = [
    {"tokens": 4608, "mode": "graph", "way": "tapa-push", "microseconds": 100.0, "against_nccl": 1.9},
    {"tokens": 16896, "mode": "graph", "way": "tapa-push", "microseconds": 300.0, "against_nccl": 0},
    {"tokens": 4608, "mode": "graph", "way": "nccl", "microseconds": 234.0, "against_nccl": 0.8},
]
CHECKS = (
    "check\tdevice_check --test random\t100.500000\t112.750000\tpassed\t\n"
    "check\tdevice_check --test dead\t112,8\t113,0\tfailed\texit status 1\n"
    "sanitizer\tcompute-sanitizer\t113.0\t113.0\tskipped\tthere is none\n"
)


def row_of(part: Any, **facts: Any) -> dict[str, Any]:
    found = [row for row in report.rows_of(part) if all(row[name] == value for name, value in facts.items())]
    assert len(found) == 1, (facts, found)
    return found[0]


class Merged(unittest.TestCase):
    def whole(self, **parts: Any) -> dict[str, Any]:
        return report.merged({"driver": "580"}, "bench/run-gpu", 113, report.checks_of(CHECKS), parts)

    def test_each_way_has_its_ratio_to_the_better_of_nccls(self) -> None:
        whole = self.whole(alltoall=ALLTOALL)
        self.assertEqual(len(whole["alltoall"]["rows"]), 15)
        small = row_of(whole["alltoall"], bytes=2048, mode="graph", way="tapa")
        self.assertEqual((small["microseconds"], small["best_of_nccl"], small["ratio"], small["of_copy"]), (4.0, "nccl", 1.5, 0.5))
        long = row_of(whole["alltoall"], bytes=1 << 30, way="tapa-staged")
        self.assertEqual((long["best_of_nccl"], long["ratio"], long["of_copy"]), ("nccl-zero-cta", 0.84, 0.76))
        self.assertNotIn("ratio", row_of(whole["alltoall"], bytes=1 << 30, way="nccl"))
        self.assertNotIn("ratio", row_of(whole["alltoall"], bytes=1 << 30, way="copy"))
        self.assertEqual(whole["machine"], {"driver": "580", "nccl": "2.28.9"})

    def test_without_nccl_there_are_no_ratios(self) -> None:
        rows = [{"bytes": 8, "mode": "graph", "tapa": 4.0, "copy": 2.0}]
        whole = self.whole(alltoall={**ALLTOALL, "nccl": "", "rows": rows}, gemm=GEMM[:2], ulysses=ULYSSES[1:2])
        self.assertEqual(
            row_of(whole["alltoall"], way="tapa"), {"bytes": 8, "mode": "graph", "way": "tapa", "microseconds": 4.0, "of_copy": 0.5}
        )
        self.assertNotIn("ratio", whole["gemm"][1])
        self.assertIsNone(whole["ulysses"][0]["ratio"])
        self.assertIsNone(whole["machine"]["nccl"])
        self.assertEqual(whole["goals"], [])

    def test_rows_are_against_their_bytes_in_one_piece(self) -> None:
        whole = self.whole(rows=ROWS)
        scatter = row_of(whole["rows"], way="scatter")
        self.assertEqual((scatter["of_contiguous"], scatter["of_copy"]), (0.8, 0.4))
        self.assertNotIn("of_contiguous", row_of(whole["rows"], way="tapa-kernel"))

    def test_products_are_compared_beside_as_many_exchanges(self) -> None:
        whole = self.whole(gemm=GEMM)
        self.assertEqual(row_of(whole["gemm"], exchanges=1, way="tapa")["ratio"], round(1.03 / 1.02, 4))
        self.assertEqual(row_of(whole["gemm"], exchanges=4, way="tapa")["ratio"], 0.9)
        self.assertNotIn("ratio", row_of(whole["gemm"], exchanges=1, way="alone"))
        goal = whole["goals"][0]
        self.assertEqual(
            (goal["part"], goal["least"], goal["met"], goal["where"]), ("gemm", 0.9, False, {"bytes": 1 << 26, "exchanges": 4})
        )

    def test_the_share_of_the_line_is_that_of_half_the_bytes(self) -> None:
        whole = self.whole(line=LINE)
        longest = row_of(whole["line"], bytes=1 << 29, way="tapa")
        self.assertEqual((longest["line_microseconds"], longest["share"], longest["ratio"]), (107374.18, 0.9893, 1.3246))
        self.assertEqual(row_of(whole["line"], bytes=1 << 29, way="nccl")["share"], 0.7468)
        # Short ones do not count: a burst passes faster, and a call has its own costs.
        self.assertEqual([(goal["least"], goal["rows"], goal["met"]) for goal in whole["goals"]], [(0.9893, 1, True)])

    def test_goals_say_where_they_were_missed(self) -> None:
        goals = self.whole(alltoall=ALLTOALL, ulysses=ULYSSES)["goals"]
        judged = [(goal["part"], goal["wanted"], goal["least"], goal["rows"], goal["met"]) for goal in goals]
        self.assertEqual(judged[0], ("alltoall", 1.0, 0.95, 3, False))  # any size
        self.assertEqual(judged[1:3], [("alltoall", 3.0, 0.95, 1, False), ("alltoall", 1.4, 1.5, 1, True)])  # of each mode alone
        self.assertEqual(judged[3:5], [("alltoall", 1.2, 1.05, 1, False), ("alltoall", 0.95, 0.95, 1, True)])  # the long ones
        self.assertEqual(judged[5:], [("ulysses", 1.0, 1.9, 1, True)])
        self.assertEqual(goals[0]["where"], {"bytes": 2048, "mode": "eager"})
        self.assertAlmostEqual(goals[0]["mean"], (1.5 * 1.05 * 0.95) ** (1 / 3), 3)

    def test_checks_and_tables(self) -> None:
        whole = self.whole(line=LINE)
        self.assertEqual((whole["passed"], whole["failed"], whole["skipped"], whole["seconds"]), (1, 1, 1, 113))
        self.assertEqual([check["seconds"] for check in whole["checks"]], [12.25, 0.2, 0])
        self.assertEqual(whole["checks"][2]["why"], "there is none")
        text = report.tables(whole)
        self.assertIn("* check, device_check --test dead: failed, exit status 1\n", text)
        self.assertIn("| line | share of the line | 0.99 | 0.99 | 0.95 | met, least at bytes 536870912, mode eager |\n", text)
        self.assertIn("1 passed, 1 failed, 1 skipped: check 12 s, sanitizer 0 s\n", text)

    def test_what_others_said_is_one_field_of_a_line(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = r""". "$0"; noted=$1; skipped $'two\tnodes' $'cmake says:\n\tno'"""
            subprocess.run(["bash", "-c", script, SOURCE / "bench/device/noted.sh", f"{folder}/noted"], check=True, capture_output=True)
            checks = report.checks_of(Path(folder, "noted").read_text())
        self.assertEqual([(check.what, check.result, check.why) for check in checks], [("two nodes", "skipped", "cmake says:  no")])

    def test_nothing_at_all(self) -> None:
        whole = report.merged({}, "", 0, [], {})
        self.assertEqual((whole["goals"], whole["checks"]), ([], []))
        self.assertNotIn("alltoall", whole)
        json.dumps(whole)


PRETENDED = {
    "nvidia-smi": """case "$*" in
*compute_cap*) echo 9.0 ;;
*memory*) echo "NVIDIA H200, 143771 MiB, 580.159" ;;
*name*) echo NVIDIA H200 ;;
*list-gpus*) echo "GPU 0: NVIDIA H200" ;;
esac""",
    "nvcc": 'echo "Cuda compilation tools, release 13.0, V13.0.88"',
    "cmake": "exit 0",
    "compute-sanitizer": "echo '========= ERROR SUMMARY: 0 errors'",
}
DEVICE_CHECK = """case "$*" in *dead*) exit 1 ;; esac"""
JSON = """while [ $# -gt 0 ]; do [ "$1" = --json ] && file=$2; shift; done
echo '%s' >"$file\""""


class RunGpu(unittest.TestCase):
    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        for name, text in PRETENDED.items():
            self.program(self.folder / "bin" / name, text)
        built = self.folder / "build/bin"
        self.program(built / "device_check", DEVICE_CHECK)
        self.program(built / "device_codecs", JSON % '{"copy_gb_per_s": 3000, "codecs": []}')
        self.program(built / "device_alltoall", JSON % json.dumps(ALLTOALL))
        self.program(built / "device_gemm", JSON % json.dumps(GEMM))

    def program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run_gpu(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        command = [SOURCE / "bench/run-gpu", "--build", f"{self.folder}/build", "--json", "gpu.json", *words]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)

    def test_one_file_has_all_of_it(self) -> None:
        done = self.run_gpu("--quick", "--only", "check,nodes,sanitizer,formats,compare,rows,gemm,line")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["bin", "build", "build.log", "gpu.json"])
        whole = json.loads((self.folder / "gpu.json").read_text())
        machine = whole["machine"]
        self.assertEqual(machine["gpus"], [{"name": "NVIDIA H200", "memory": "143771 MiB"}])
        self.assertEqual((machine["driver"], machine["cuda"], machine["nccl"]), ("580.159", "13.0.88", "2.28.9"))
        self.assertRegex(whole["command"], r"^bench/run-gpu --build .* --quick --only ")
        checks = whole["checks"]
        failed = [check for check in checks if check["result"] == "failed"]
        # One in the node, and one of two nodes, over sockets.
        self.assertEqual([(check["part"], check["why"]) for check in failed], [("check", "exit status 1"), ("nodes", "exit status 1")])
        self.assertIn("--test dead", failed[0]["what"])
        skipped = {check["part"]: check["why"] for check in checks if check["result"] == "skipped"}
        self.assertEqual(skipped["nodes"], "one GPU")
        self.assertIn("line", skipped)
        self.assertEqual(
            {check["part"] for check in checks}, {"build", "check", "nodes", "sanitizer", "formats", "compare", "rows", "gemm", "line"}
        )
        self.assertEqual(row_of(whole["alltoall"], bytes=2048, mode="graph", way="tapa")["ratio"], 1.5)
        self.assertEqual(row_of(whole["gemm"], exchanges=4, way="tapa")["ratio"], 0.9)
        self.assertEqual(whole["codecs"]["copy_gb_per_s"], 3000)
        self.assertIn("2 failed", done.stdout)

    def test_a_part_alone(self) -> None:
        done = self.run_gpu("--only", "gemm")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        whole = json.loads((self.folder / "gpu.json").read_text())
        self.assertEqual([check["part"] for check in whole["checks"]], ["build", "gemm"])
        self.assertNotIn("alltoall", whole)
        self.assertRegex(done.stderr, r"(?s)run-gpu: 1 of 2.*run-gpu: 2 of 2")
        self.assertIn("| gemm |", done.stdout)

    def test_a_file_that_cannot_be_written_is_told_at_once(self) -> None:
        done = self.run_gpu("--only", "gemm", "--json", "nowhere/gpu.json")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("--json is", done.stderr)
        self.assertFalse((self.folder / "build.log").exists())

    def ends(self, pid: int) -> bool:
        """Within seconds: it is told to, and whoever inherits it takes its status."""
        for _ in range(500):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.01)
        return False

    def test_what_runs_ends_with_it(self) -> None:
        pid = self.folder / "pid"
        self.program(self.folder / "build/bin/device_check", f"echo $$ >'{pid}.part'; mv '{pid}.part' '{pid}'; exec sleep 50")
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "TMPDIR": str(self.folder / "bin")}
        for number in (signal.SIGINT, signal.SIGTERM):
            pid.unlink(missing_ok=True)
            command = [SOURCE / "bench/run-gpu", "--build", f"{self.folder}/build", "--only", "check", "--quick"]
            quiet = subprocess.DEVNULL
            script = subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet)
            self.addCleanup(script.wait)
            self.addCleanup(script.kill)
            began = time.monotonic()
            while not pid.exists() and time.monotonic() < began + 10:
                time.sleep(0.01)
            running = int(pid.read_text())
            script.send_signal(number)
            self.assertEqual(script.wait(10), 128 + number)
            self.assertTrue(self.ends(running), "the program that run-gpu ran goes on")
            self.assertEqual(sorted(os.listdir(self.folder / "bin")), sorted(PRETENDED))  # and no folder of its own


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's job in the background ignores it, and so would its programs
    unittest.main()
