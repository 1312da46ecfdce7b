"""bench/image-quality with a program in dit's place that writes down how it was called."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import Any

PROGRAM = os.path.abspath(sys.argv.pop(1))
# generate: a field is its policy's name, the report is what was asked for. compare: both fields' names.
DIT = f"""#!{sys.executable}
import json, pathlib, sys, time
rest = [word for word in sys.argv[2:] if word != "--quiet"]
with open(pathlib.Path(__file__).with_name("log"), "a") as log:
    log.write(" ".join([sys.argv[1], *rest]) + "\\n")
if sys.argv[1] == "compare":
    exact, other = (pathlib.Path(name).read_text() for name in rest[1:])
    print(json.dumps({{"psnr_db": len(other), "ssim": 0.5, "equal": False, "of": exact}}))
    sys.exit(0 if exact == "exact" else "not the exact field")
words = dict(zip(rest[::2], rest[1::2]))
time.sleep(float(words["--steps"]) / 10)
if words["--seed"] == "13" and words["--policy"] in ("exact", "int8"):
    sys.exit("seed 13 is refused")
pathlib.Path(words["--save-latents"]).write_text(words["--policy"])
json.dump({{"dtype": "Float", "policy": words["--policy"], "bytes_slow": 7.0, "cache_bytes": 3, "reused_steps": "0"}}, sys.stdout)
"""
POLICIES = "int8,before=some/old.json,some/rival.json,v-major:format=fp8"


class ImageQuality(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name, "out")
        self.dit = pathlib.Path(self.folder.name, "dit")
        self.dit.write_text(DIT)
        self.dit.chmod(0o755)

    def run_it(self, *words: str, policies: str = POLICIES) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                PROGRAM,
                "--dit",
                str(self.dit),
                "--out",
                str(self.out),
                "--policies",
                policies,
                "--jobs",
                "2",
                "--steps",
                "1",
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self, verb: str) -> list[list[str]]:
        """The words behind `dit VERB`, of each call."""
        log = pathlib.Path(self.folder.name, "log")
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [line[1:] for line in lines if line[0] == verb]

    def asked(self, *names: str) -> list[tuple[str, ...]]:
        """What images were asked for, by those options."""
        return sorted(tuple(dict(zip(call[::2], call[1::2], strict=False))[name] for name in names) for call in self.calls("generate"))

    def record(self, name: str) -> dict[str, Any]:
        return json.loads((self.out / name).read_text())

    def test_seeds_and_classes_are_those_of_one_run(self) -> None:
        result = self.run_it("--seed", "110", "--class", "10", "--seeds", "3", "--size", "64", policies="int8")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            self.asked("--seed", "--class", "--policy", "--size"),
            [
                ("110", "10", "exact", "64"),
                ("110", "10", "int8", "64"),
                ("111", "11", "exact", "64"),
                ("111", "11", "int8", "64"),
                ("112", "0", "exact", "64"),
                ("112", "0", "int8", "64"),
            ],
        )
        self.assertEqual(
            sorted(path.name for path in self.out.iterdir()),
            [f"64-1-{seed}.{ending}" for seed in (110, 111, 112) for ending in ("json", "safetensors")],
        )

    def test_a_row_for_each_policy(self) -> None:
        self.assertEqual(self.run_it("--seeds", "1").returncode, 0)
        record = self.record("128-1-100.json")
        self.assertEqual(record["model"], {"height": 128, "steps": 1, "seed": 100, "class": 0, "dtype": "Float"})
        rows = {row["name"]: row for row in record["rows"]}
        self.assertEqual(
            {name: row["policy"] for name, row in rows.items()},
            {
                "exact": "exact",
                "int8": "int8",
                "before": "some/old.json",
                "rival": "some/rival.json",
                "v-major:format=fp8": "v-major:format=fp8",
            },
        )
        self.assertEqual(
            rows["int8"],
            {
                "name": "int8",
                "policy": "int8",
                "bytes_slow": 7.0,
                "cache_bytes": 3,
                "reused_steps": 0,
                "judged": [{"seed": 100, "class": 0, "psnr_db": 4, "ssim": 0.5, "equal": False}],
            },
        )
        self.assertEqual(rows["exact"]["judged"][0]["psnr_db"], None)
        self.assertTrue(rows["exact"]["judged"][0]["equal"])

    def test_what_is_there_is_not_made_again(self) -> None:
        self.assertEqual(self.run_it("--seeds", "1", policies="int8").returncode, 0)
        self.assertEqual(self.run_it("--seeds", "2", policies="int8,fine").returncode, 0)
        self.assertEqual(
            self.asked("--seed", "--policy"),
            [("100", "exact"), ("100", "fine"), ("100", "int8"), ("101", "exact"), ("101", "fine"), ("101", "int8")],
        )
        self.assertEqual(len(self.calls("compare")), 4)
        self.assertEqual({row["name"] for row in self.record("128-1-100.json")["rows"]}, {"exact", "int8", "fine"})

    def test_an_image_that_fails_is_named_and_the_others_stay(self) -> None:
        result = self.run_it("--seed", "12", "--seeds", "1", policies="int8")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(self.run_it("--seed", "13", "--seeds", "1", policies="fine").returncode, 1)
        self.assertEqual(self.asked("--seed", "--policy")[-1], ("13", "exact"))  # without it nothing can be judged
        result = self.run_it("--seed", "12", "--seeds", "3", policies="int8")
        self.assertEqual(result.returncode, 1)
        self.assertIn("seed 13, exact: ", result.stderr)
        self.assertIn("seed 13 is refused", result.stderr)
        self.assertEqual(sorted(path.name for path in self.out.glob("*.json")), ["128-1-12.json", "128-1-14.json"])
        self.assertEqual(list(self.out.glob("*.part")), [])

    def test_no_image_is_begun_that_would_end_too_late(self) -> None:
        result = self.run_it("--seeds", "5", "--jobs", "1", "--steps", "15", "--seconds", "2.5", policies="int8")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("9 images not begun: --seconds 2.5", result.stderr)
        self.assertEqual(self.asked("--policy"), [("exact",)])


if __name__ == "__main__":
    unittest.main()
