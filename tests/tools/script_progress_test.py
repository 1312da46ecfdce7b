"""script_progress_test.py SOURCE: long scripts say on standard error which of how many steps they begin, those in Python as those of
bash; bench/sim/regret is run as a whole, with a program in place of tapa-sim."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "tools/lib"))
from progress import Progress  # noqa: E402

LONG = ("codes", "image-quality", "first-calls", "run-gpu", "run-torch", "sim/regret", "sweep", "versions")


def without_seconds(text: str) -> str:
    """bash counts how often the clock has passed a second, which may be once between two steps at once."""
    return re.sub(r", [01] s:", ", ? s:", text)


class Steps(unittest.TestCase):
    def test_python_and_bash_say_the_same(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            progress = Progress("bash", 2)
            progress.step("first, of all")
            progress.step("second")
        self.assertEqual(without_seconds(said.getvalue()), "bash: 1 of 2, ? s: first, of all\nbash: 2 of 2, ? s: second\n")
        script = f". {SOURCE}/tools/lib/progress.sh; begin_progress 2; step first, of all; step second"
        done = subprocess.run(["bash", "-c", script, "bash"], capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout, without_seconds(done.stderr)), ("", without_seconds(said.getvalue())))

    def test_each_long_script_uses_them(self) -> None:
        for name in LONG:
            with self.subTest(name=name):
                text = (SOURCE / "bench" / name).read_text()
                python = "Progress(" in text and "progress.step(" in text
                bash = re.search(r"(?s)\n *begin_progress .*\bstep ", text)
                self.assertTrue(python or bash, f"bench/{name} says nothing")

    def test_a_script_counts_to_its_number_of_steps(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "tapa-sim"
            program.write_text('#!/bin/sh\nfor last; do :; done\necho "{}" >"$last"\n')
            program.chmod(0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            command = [SOURCE / "bench/sim/regret", f"{folder}/results"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        steps = re.findall(r"^regret: (\d+) of (\d+), \d+ s: \S", done.stderr, re.MULTILINE)
        self.assertEqual(steps, [(str(number), str(len(steps))) for number in range(1, len(steps) + 1)])
        self.assertGreater(len(steps), 1)


if __name__ == "__main__":
    unittest.main()
