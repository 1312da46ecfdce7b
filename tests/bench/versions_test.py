"""bench/versions: its table from made-up runs, and one run of this build against a copy of it.

Arguments: bench/versions, the build folder, what launches two ranks (words, optional)."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any

PROGRAM = os.path.abspath(sys.argv.pop(1))
BUILD = pathlib.Path(sys.argv.pop(1))
LAUNCHER = sys.argv.pop(1) if len(sys.argv) > 1 else ""
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("versions", PROGRAM)
versions = importlib.util.module_from_spec(importlib.util.spec_from_loader("versions", LOADER))
LOADER.exec_module(versions)


def run_of(**times: float) -> dict[int, Any]:
    """{bytes: row}; MPI takes 10 us."""
    sizes = {int(name[1:]): time for name, time in times.items()}
    return {size: {"tapa_us": time, "ratio": 10 / time, "plan": "memory"} for size, time in sizes.items()}


class Versions(unittest.TestCase):
    def test_ratios_are_of_neighbouring_runs(self) -> None:
        pairs = [
            (run_of(b8=1, b64=2), run_of(b8=2, b64=1)),
            (run_of(b8=2, b64=4), run_of(b8=8, b64=5)),
            (run_of(b8=4, b64=4), run_of(b8=12, b64=3)),
        ]
        lines = versions.table("16 ranks", pairs).splitlines()
        self.assertEqual(lines[0], "## 16 ranks, 3 pairs of runs")
        self.assertEqual(lines[4], "| 8 | 2.00 | 8.00 | 3.000 | 2.000 | 4.000 | + | 5.00 | 1.25 | memory / memory |")
        self.assertEqual(lines[5], "| 64 | 4.00 | 3.00 | 0.750 | 0.500 | 1.250 |  | 2.50 | 3.33 | memory / memory |")
        self.assertIn("**1.500**", lines[6])

    def test_a_size_that_is_always_faster_is_marked(self) -> None:
        lines = versions.table("", [(run_of(b8=2), run_of(b8=1)), (run_of(b8=2), run_of(b8=1.9))]).splitlines()
        self.assertIn("| 0.725 | 0.500 | 0.950 | - |", lines[4])

    def run_it(self, old: str | pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, PROGRAM, "--old", str(old), "--new", str(BUILD), *words], capture_output=True, text=True, timeout=100
        )

    def test_a_folder_without_the_library_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            result = self.run_it(folder, "a: tapa_alltoall --versus mpi")
            self.assertEqual(result.returncode, 2)
            self.assertIn("no lib/libtapa.so.0 there", result.stderr)

    def test_each_side_loads_its_own_library(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(
                BUILD / "lib",
                pathlib.Path(folder, "lib"),
                symlinks=True,
                ignore=lambda _, names: [name for name in names if not name.startswith("libtapa.so")],
            )
            case = f"two: {LAUNCHER} tapa_alltoall --versus mpi -m 8:64 --step 8 -i 5 -x 1"
            result = self.run_it(folder, "--pairs", "1", case)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("## two, 1 pairs of runs", result.stdout)
            self.assertIn("| 64 |", result.stdout)
            # A library that no program can load is seen before anything is timed.
            pathlib.Path(folder, "lib/libtapa.so.0").unlink()
            pathlib.Path(folder, "lib/libtapa.so.0").write_text("no library")
            self.assertNotEqual(self.run_it(folder, "--pairs", "1", case).returncode, 0)

    def test_a_case_that_fails_is_told(self) -> None:
        result = self.run_it(BUILD, "--pairs", "1", "no: tapa_alltoall --versus mpi --no-such-option")
        self.assertEqual(result.returncode, 1)
        self.assertIn("old: status", result.stderr)
        self.assertIn("## no: no pair of runs", result.stdout)


if __name__ == "__main__":
    unittest.main()
