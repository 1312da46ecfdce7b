#!/usr/bin/env python3
"""A program whose output or file is lost has failed and says so, and a file is there whole or not at all.
Usage: lost_output_test.py FOLDER-OF-PROGRAMS"""

import contextlib
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
    "first_calls": [["blocking", "64", "3", "0"]],
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

# The same of programs that take longer, or several processes.
IMAGE = ["--size", "32", "--steps", "1"]
BENCH = ["bench", *IMAGE, "--threads", "1", "--rows", "a=local/flat/exact"]
WRITING_MORE = {
    "tapa_alltoallv": [["-m", "64:64", "-i", "2", "-x", "1", "--versus", "mpi", "--json", "FILE"]],
    "tapa_alltoallw": [["-m", "64:64", "-i", "2", "-x", "1", "--versus", "mpi", "--json", "FILE"]],
    "tapa_ialltoall": [["-m", "64:64", "-i", "2", "-x", "1", "--versus", "mpi", "--json", "FILE"]],
    "dit_exchange": [["--plugins", "mpi", "--sizes", "64", "--repeats", "1", "--compute-ms", "1", "--json", "FILE"]],
    "dit": [
        *(["generate", *IMAGE, "--quiet", "--threads", "1", option, "FILE"] for option in ("--out", "--save-latents", "--json", "--trace")),
        ["profile", "--size", "32", "--steps", "2", "--quiet", "--json", "FILE"],
        ["profile", "--size", "32", "--steps", "2", "--quiet", "--plot", "FILE"],
        ["plan", "--ranks", "1,2", "--flops", "50gflops", "--json", "FILE"],
        ["sim", "--nodes", "1", "--json", "FILE"],
        *([*BENCH, "--quiet", option, "FILE"] for option in ("--json", "--plot", "--trace")),
    ],
}
# What a program adds to the name that it is given, where it does.
PICTURES = {"--out": ".png", "--plot": ".png"}

# Mounts a disk of its own in $1, with the older file $2 where $3 is not empty, leaves $4 bytes of room, and runs the rest. Says before
# and after what lies there, into $1.before and $1.after.
ON_A_FULL_DISK = """
folder=$1 file=$2 older=$3 room=$4
shift 4
mount -t tmpfs -o size=64k none "$folder" || exit 77
[ -z "$older" ] || printf %s "$older" >"$folder/$file"
cat /dev/zero >"$folder/filler" 2>/dev/null
truncate -s "-$room" "$folder/filler"
list() { (cd "$folder" && sha256sum -- *) >"$1"; }
list "$folder.before"
"$@"
status=$?
list "$folder.after"
umount "$folder"
exit $status
"""


def namespace() -> list[str]:
    """The command that lets a program mount, or nothing where none may."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        with tempfile.TemporaryDirectory(prefix="tapa-lost-") as folder, contextlib.suppress(OSError):
            if subprocess.run([*command, "mount", "-t", "tmpfs", "none", folder], capture_output=True, check=False).returncode == 0:
                return command
    return []


def built(table: dict[str, list[list[str]]]) -> Iterator[tuple[str, list[str]]]:
    assert any((BIN / name).exists() for name in table), f"no program of ours in {BIN}"
    for name, runs in table.items():
        if (BIN / name).exists():
            for arguments in runs:
                # What simulates is another program, which needs SimGrid.
                if arguments[:1] != ["sim"] or (BIN / "tapa-sim").exists():
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


class FullDisk(unittest.TestCase):
    """A disk that takes the name of a file and not one byte of it."""

    namespace: list[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.namespace = namespace()
        if not cls.namespace:
            raise unittest.SkipTest("no file system may be mounted here, neither as root nor in a user namespace")

    def write(self, name: str, arguments: list[str], older: str, room: int = 0) -> None:
        """`arguments` with FILE: fails, names it, and leaves what there was."""
        option = arguments[arguments.index("FILE") - 1]
        file = "result" + (PICTURES.get(option, "") if name == "dit" and arguments[0] != "bench" else "")
        with tempfile.TemporaryDirectory(prefix="tapa-lost-") as where:
            disk = Path(where) / "disk"
            disk.mkdir()
            words = [word.replace("FILE", str(disk / file)) for word in arguments]
            command = [*self.namespace, "sh", "-c", ON_A_FULL_DISK, "sh", str(disk), file, older, str(room), str(BIN / name), *words]
            result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            before, after = (Path(f"{disk}.{when}").read_text() for when in ("before", "after"))
        self.assertIn("filler", before)
        self.assertEqual(file in before, bool(older))
        self.assertGreater(result.returncode, 0, result.stderr)
        self.assertIn(f"{name}: ", result.stderr)
        self.assertIn(f"{disk / file}: cannot be written: No space left on device", self.of_one_line(result.stderr, arguments))
        self.assertEqual(before, after)

    @staticmethod
    def of_one_line(text: str, arguments: list[str]) -> str:
        """dit bench writes a trace for each row, and says so."""
        return text.replace("result-a:", "result:").replace("result-a.json:", "result:") if "--trace" in arguments else text

    def test_a_full_disk_is_a_failure(self) -> None:
        for table, befores in ((WRITING, ["", "an older one"]), (WRITING_MORE, ["an older one"])):
            for name, arguments in built(table):
                for older in befores:
                    with self.subTest(name=name, arguments=arguments, older=older):
                        self.write(name, arguments, older)

    def test_half_a_file_is_none(self) -> None:
        for name in ("tapa-plan", "tapa-info"):
            for older in ("", "an older one"):
                with self.subTest(name=name, older=older):
                    self.write(name, WRITING[name][0], older, room=resource.getpagesize())


if __name__ == "__main__":
    unittest.main()
