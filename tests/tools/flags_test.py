"""flags_test.py SOURCE BIN VERSION: all scripts of tools/, bench/ and examples/ that can be executed, and all programs that are
built, tell their usage and the project's version, refuse options that they do not know by name, and write nothing meanwhile."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

SOURCE, BIN, VERSION = Path(sys.argv.pop(1)), Path(sys.argv.pop(1)), sys.argv.pop(1)
SCRIPTS = ("tools", "bench", "examples")
NOT_FOR_USERS = {"tests", "fuzz"}  # folders of BIN
UNKNOWN = "--no-such-option"
SECONDS = 20 * int(os.environ.get("TIMEOUT_FACTOR", "1"))


def executables(folder: Path, left_out: set[str]) -> Iterator[Path]:
    for name, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - left_out)
        for file in sorted(files):
            path = Path(name) / file
            if os.access(path, os.X_OK) and not path.is_symlink() and ".so" not in file:
                yield path


def built_from_sources() -> set[str]:
    """Names of programs that the build files name, as far as they can be told."""
    text = "".join(path.read_text() for folder in SCRIPTS for path in (SOURCE / folder).rglob("CMakeLists.txt"))
    calls = r"(?:add_executable|tapa_tool|tapa_program|tapa_micro_benchmark|ulysses_program)"
    return {name for name in re.findall(rf"{calls}\(([a-z]\w*)", text) if not name.startswith(("example_", "name"))}


class Flags(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def answer(self, program: Path, flag: str) -> subprocess.CompletedProcess[str]:
        # Without devices, in a home of its own: nothing of this machine's or user's is needed, or written.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HOME": str(self.folder), "COLUMNS": "200"}
        done = subprocess.run(
            [program, flag],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
        self.assertEqual(sorted(os.listdir(self.folder)), [], "files were made")
        return done

    def check(self, program: Path) -> None:
        told = self.answer(program, "--help")
        self.assertEqual((told.returncode, told.stderr), (0, ""), told.stdout)
        self.assertRegex(told.stdout, re.compile(r"^ *usage:? +\S|\[--", re.IGNORECASE | re.MULTILINE))
        version = self.answer(program, "--version")
        self.assertEqual((version.returncode, version.stderr), (0, ""), version.stdout)
        self.assertRegex(version.stdout, rf"^\S+ {re.escape(VERSION)}\n\Z")
        refused = self.answer(program, UNKNOWN)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(UNKNOWN, refused.stdout + refused.stderr)
        self.assertNotIn("Traceback", refused.stderr)

    def check_all(self, programs: list[Path], least: int) -> None:
        self.assertGreaterEqual(len(programs), least, "the folders are not where this test looks")
        for program in programs:
            with self.subTest(program=str(program)):
                self.check(program)

    def test_scripts(self) -> None:
        self.check_all([path for folder in SCRIPTS for path in executables(SOURCE / folder, {"__pycache__"})], 20)

    def test_programs(self) -> None:
        programs = list(executables(BIN, NOT_FOR_USERS))
        lacking = sorted(built_from_sources() - {path.name for path in programs})
        print(f"{len(programs)} programs; left out, not built: {', '.join(lacking) or 'none'}")
        self.check_all(programs, 1)


if __name__ == "__main__":
    unittest.main()
