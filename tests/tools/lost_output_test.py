#!/usr/bin/env python3
"""A program whose output or file is lost has failed and says so, and a file is there whole or not at all.
Usage: lost_output_test.py FOLDER-OF-PROGRAMS"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BIN = Path(sys.argv.pop(1))
FEW_BYTES = 256

# What each program prints, soon and without other ranks.
PRINTING = {
    "tapa-plan": [["--topology", "2x3"], ["--topology", "2x3", "--json"], ["--topology", "2x3", "--svg"], ["--help"]],
    "tapa-info": [[], ["--machines"], ["--options"], ["--svg", "-", "--topology", "2x3"], ["--write", "-"], ["--help"]],
    "tapa-sim": [["--list"], ["--help"]],
    "tapa-tune": [["--dry-run"], ["--help"]],
    "tapa_alltoall": [["-m", "64:64", "-i", "2"], ["--help"]],
    "dit_exchange": [["--help"]],
    "dit": [["--help"], ["plan", "--help"]],
    "dit-conformance": [["--plugin", "local", "--ranks", "2"], ["--help"]],
    "comm_lifetime": [["64", "2"]],
}

# How each program is told to write a file, "FILE".
WRITING = {
    "tapa-plan": [["--topology", "8x8", "--bytes", "64", "--svg", "FILE"]],
    "tapa-info": [["--topology", "8x8", "--svg", "FILE"], ["--topology", "8x8", "--write", "FILE"]],
    "tapa-sim": [
        ["polaris", "--nodes", "2", "--per-node", "2", "--bytes", "64", "--plans", "choice", "--rivals", "pair", "--json", "FILE"],
        ["polaris", "--nodes", "2", "--per-node", "2", "--bytes", "64", "--plans", "choice", "--rivals", "pair", "--plot", "FILE"],
    ],
    "tapa-tune": [["--time", "1", "--sizes", "64", "-o", "FILE"]],
    "tapa_alltoall": [["-m", "64:64", "-i", "2", "-x", "1", "--versus", "mpi", "--json", "FILE"]],
}


def built(table: dict[str, list[list[str]]]) -> Iterator[tuple[str, list[str]]]:
    assert any((BIN / name).exists() for name in table), f"no program of ours in {BIN}"
    for name, runs in table.items():
        if (BIN / name).exists():
            for arguments in runs:
                yield name, arguments


def run(name: str, arguments: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / name, *arguments], stderr=subprocess.PIPE, text=True, timeout=60, check=False, **settings)


def files_stay_small() -> None:
    """As a disk that is full: a write beyond the limit fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FEW_BYTES, FEW_BYTES))


@unittest.skipUnless(os.path.exists("/dev/full"), "no device that is always full")
class FullDevice(unittest.TestCase):
    def test_lost_output_is_a_failure(self) -> None:
        for name, arguments in built(PRINTING):
            with self.subTest(name=name, arguments=arguments), open("/dev/full", "wb") as full:
                result = run(name, arguments, stdout=full)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(f"{name}: the standard output cannot be written", result.stderr)

    def test_output_that_arrives_is_none(self) -> None:
        for name, arguments in built(PRINTING):
            with self.subTest(name=name, arguments=arguments):
                result = run(name, arguments, stdout=subprocess.PIPE)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotEqual(result.stdout, "")

    def test_a_lost_file_is_a_failure(self) -> None:
        for name, arguments in built(WRITING):
            with self.subTest(name=name, arguments=arguments):
                result = run(name, [word.replace("FILE", "/dev/full") for word in arguments], stdout=subprocess.PIPE)
                self.assertNotEqual(result.returncode, 0, result.stderr)
                self.assertIn("/dev/full: cannot be written", result.stderr)


class HalfAFile(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "result"

    def write(self, name: str, arguments: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        return run(name, [word.replace("FILE", str(self.file)) for word in arguments], stdout=subprocess.PIPE, **settings)

    def test_a_file_is_whole_and_alone(self) -> None:
        for name, arguments in built(WRITING):
            with self.subTest(name=name, arguments=arguments):
                result = self.write(name, arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertGreater(self.file.stat().st_size, FEW_BYTES)
                self.assertEqual(os.listdir(self.folder), ["result"])
                self.file.unlink()

    def test_nothing_is_left_of_a_file_that_does_not_fit(self) -> None:
        # MPI needs files of its own: only programs without it can run into the limit.
        for name, arguments in built({"tapa-plan": WRITING["tapa-plan"]}):
            for before in (None, "an older one"):
                with self.subTest(name=name, arguments=arguments, before=before):
                    if before:
                        self.file.write_text(before)
                    result = self.write(name, arguments, preexec_fn=files_stay_small, restore_signals=False)
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn(f"{self.file}: cannot be written", result.stderr)
                    self.assertEqual(os.listdir(self.folder), ["result"] if before else [])
                    if before:
                        self.assertEqual(self.file.read_text(), before)
                        self.file.unlink()


if __name__ == "__main__":
    unittest.main()
