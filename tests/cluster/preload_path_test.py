"""tools/preload-path: the newest drop-in, and advice when there is none."""

import os
import shutil
import subprocess
import tempfile
import unittest

import harness


class PreloadPath(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)
        os.makedirs(f"{self.root}/tools")
        shutil.copy(os.path.join(harness.SOURCE, "tools", "preload-path"), f"{self.root}/tools")

    def library(self, folder: str, age: int) -> str:
        path = f"{self.root}/{folder}/libtapa_preload.so"
        os.makedirs(os.path.dirname(path))
        with open(path, "w"):
            os.utime(path, (1e9 - age, 1e9 - age))
        return path

    def ask(self, build: str = "") -> tuple[int, str, str]:
        command = [f"{self.root}/tools/preload-path"]
        done = subprocess.run(command, env={**os.environ, "TAPA_BUILD": build}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def test_none(self) -> None:
        advice = "build it (cmake --preset release && cmake --build build/release --target tapa_preload)"
        self.assertEqual(self.ask("debug"), (1, "", f"preload-path: no libtapa_preload.so in {self.root}/build/debug/lib: {advice}"))

    def test_newest_build_wins_unless_one_is_named(self) -> None:
        old, new = self.library("build/release/lib", 20), self.library("build/debug/lib", 10)
        self.assertEqual(self.ask(), (0, new, ""))
        self.assertEqual(self.ask("release"), (0, old, ""))
        self.assertEqual(self.ask(f"{self.root}/build/release"), (0, old, ""))

    def test_installed(self) -> None:
        """Where Debian, and where Red Hat and SUSE install libraries."""
        self.assertEqual(self.ask()[0], 1)
        for age, folder in ((5, "lib/x86_64-linux-gnu"), (4, "lib64")):
            installed = self.library(folder, age)
            self.assertEqual(self.ask(), (0, installed, ""))


if __name__ == "__main__":
    harness.main(needs_cluster=False)
