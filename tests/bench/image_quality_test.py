"""bench/image-quality with a program in dit's place that writes down how it was called."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
DIT = f"""#!{sys.executable}
import json, sys, time
rest = [word for word in sys.argv[2:] if word != "--quiet"]
words = dict(zip(rest[::2], rest[1::2]))
time.sleep(float(words["--steps"]) / 10)
if words["--seed"] == "13":
    sys.exit("seed 13 is refused")
json.dump(words, open(words["--json"], "w"))
"""


class ImageQuality(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name, "out")
        self.dit = pathlib.Path(self.folder.name, "dit")
        self.dit.write_text(DIT)
        self.dit.chmod(0o755)

    def run_it(self, *words):
        return subprocess.run([sys.executable, PROGRAM, "--dit", str(self.dit), "--out", str(self.out), "--policies",
                               "int8,before=some/old.json,some/rival.json,v-major:format=fp8", "--jobs", "2", "--steps", "1", *words],
                              capture_output=True, text=True, timeout=60)

    def written(self):
        return {path.name: json.loads(path.read_text()) for path in sorted(self.out.glob("*"))}

    def test_seeds_and_classes_are_those_of_one_run(self):
        result = self.run_it("--seed", "110", "--class", "10", "--seeds", "5", "--each", "2", "--size", "64")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = {name: (words["--seed"], words["--class"], words["--seeds"]) for name, words in self.written().items()}
        self.assertEqual(found, {"64-1-110.json": ("110", "10", "2"), "64-1-112.json": ("112", "0", "2"),
                                 "64-1-114.json": ("114", "2", "1")})
        self.assertEqual(self.written()["64-1-110.json"]["--rows"],
                         "exact=local/v-first/exact;int8=local/v-first/int8;before=local/v-first/some/old.json;"
                         "rival=local/v-first/some/rival.json;v-major:format=fp8=local/v-first/v-major:format=fp8")

    def test_what_is_there_stays(self):
        self.out.mkdir()
        (self.out / "128-1-100.json").write_text("{}")
        self.assertEqual(self.run_it("--seeds", "2").returncode, 0)
        self.assertEqual(self.written()["128-1-100.json"], {})
        self.assertEqual(self.written()["128-1-101.json"]["--seed"], "101")

    def test_a_run_that_fails_is_named_and_leaves_nothing(self):
        result = self.run_it("--seed", "12", "--seeds", "2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("seed 13: ", result.stderr)
        self.assertIn("seed 13 is refused", result.stderr)
        self.assertEqual(list(self.written()), ["128-1-12.json"])

    def test_no_run_is_begun_that_would_end_too_late(self):
        result = self.run_it("--seeds", "5", "--jobs", "1", "--steps", "15", "--seconds", "2.5")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("4 runs not begun: --seconds 2.5", result.stderr)
        self.assertEqual(len(self.written()), 1)


if __name__ == "__main__":
    unittest.main()
