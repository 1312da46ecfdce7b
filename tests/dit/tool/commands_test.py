#!/usr/bin/env python3
"""dit compare, inspect and plan. Usage: commands_test.py DIT TINY_MODEL MANY_RUNS"""
import json
import math
import struct
import unittest

import broken_models
import ground
from ground import MODEL, good, run_program


class Program(unittest.TestCase):
    """The other tests call what the program's main calls; here is the program."""

    def test_it_does_what_it_is_told(self):
        result = run_program("generate", "--model", MODEL, "--steps", 2, "--seed", 5, "-o", "program.png")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("program.png: spots, seed 5", result.stdout)
        good("generate", "--model", MODEL, "--steps", 2, "--seed", 5, "-o", "function.png")
        self.assertEqual(ground.read("program.png"), ground.read("function.png"))

    def test_its_errors_are_a_line_and_a_status(self):
        result = run_program("generate", "--steps", 0)
        self.assertEqual((result.returncode, result.stdout, result.stderr),
                         (2, "", 'dit: --steps: "0", expected a whole number from 1 to 10000\n'))


class Compare(unittest.TestCase):
    def test_fields(self):
        ramp = [i / 100 for i in range(16 * 16)]
        shifted = [value + 0.1 for value in ramp]
        for name, values in (("ramp", ramp), ("shifted", shifted)):
            broken_models.safetensors(f"{name}.safetensors",
                                      {"image": ("F32", [1, 16, 16], struct.pack(f"<{len(values)}f", *values))})
        report = json.loads(good("compare", "ramp.safetensors", "shifted.safetensors", "--range", 2, "--json"))
        self.assertFalse(report["equal"])
        self.assertAlmostEqual(report["mse"], 0.01, places=6)
        self.assertAlmostEqual(report["max_error"], 0.1, places=5)
        self.assertAlmostEqual(report["psnr_db"], 10 * math.log10(2 ** 2 / 0.01), places=3)
        self.assertLess(report["ssim"], 1)
        same = json.loads(good("compare", "ramp.safetensors", "ramp.safetensors", "--json"))
        self.assertEqual((same["equal"], same["psnr_db"], same["ssim"]), (True, None, 1))

    def test_pictures_and_their_difference(self):
        for seed in (1, 2):
            good("generate", "--model", MODEL, "--steps", 2, "--seed", seed, "-o", f"{seed}.png")
        text = good("compare", "1.png", "2.png", "--difference", "difference.png")
        self.assertIn("dB", text)
        self.assertEqual(json.loads(good("inspect", "--json", "difference.png"))["size"], "32x32")
        self.assertIn("infinite (equal)", good("compare", "1.png", "1.png"))

    def test_latents_carry_their_range(self):
        good("generate", "--model", MODEL, "--steps", 2, "--save-latents", "range.safetensors")
        self.assertEqual(json.loads(good("compare", "range.safetensors", "range.safetensors", "--json"))["range"], 4)


class Inspect(unittest.TestCase):
    def test_a_model_adds_up(self):
        report = json.loads(good("inspect", MODEL, "--json"))
        self.assertEqual(report["config"]["network"]["width"], 32)
        self.assertEqual(report["text"]["made"], "for tests")
        elements = sum(math.prod(tensor["shape"]) for tensor in report["tensors"])
        self.assertEqual(report["elements"], elements)
        self.assertEqual(report["bytes"], 4 * elements)
        self.assertIn(f"{len(report['tensors'])} tensors, {elements} elements", good("inspect", MODEL))

    def test_a_file_alone(self):
        whole = json.loads(good("inspect", MODEL, "--json"))["tensors"]
        self.assertEqual(json.loads(good("inspect", MODEL + "/model.safetensors", "--json"))["tensors"], whole)

    def test_an_index_with_shards(self):
        names = ["a", "b"]
        for name in names:
            broken_models.safetensors(f"{name}.safetensors", {name: ("F32", [2, 3], bytes(24))})
        with open(ground.path("both.safetensors.index.json"), "w", encoding="utf8") as file:
            json.dump({"weight_map": {name: f"{name}.safetensors" for name in names}}, file)
        report = json.loads(good("inspect", "both.safetensors.index.json", "--json"))
        self.assertEqual([(t["name"], t["shape"]) for t in report["tensors"]], [("a", [2, 3]), ("b", [2, 3])])
        self.assertEqual(report["bytes"], 48)


class Plan(unittest.TestCase):
    MACHINE = ["--model", MODEL, "--flops", "20gflops", "--ranks", "1,2,4,12", "--ranks-per-node", 2, "--fast-rate", "4GB"]

    def plan(self, *more):
        return json.loads(good("plan", *self.MACHINE, *more, "--json", "-"))

    def test_rows(self):
        rows = self.plan("--slow-rate", "100mbit")["rows"]
        kinds = {(row["ranks"], row["policy"], row["schedule"]) for row in rows}
        self.assertEqual(len(kinds), 1 + 3 + 6 + 6)  # v-major only where there are several nodes
        for row in rows:
            self.assertAlmostEqual(row["step_ms"], row["compute_ms"] + row["exposed_ms"], places=6)
        at = {(row["ranks"], row["policy"], row["schedule"]): row for row in rows}
        self.assertLessEqual(at[4, "exact", "v-first"]["step_ms"], at[4, "exact", "flat"]["step_ms"])
        self.assertLess(at[4, "v-major", "flat"]["bytes_slow"], at[4, "exact", "flat"]["bytes_slow"])
        self.assertGreater(at[4, "v-major", "flat"]["cache_bytes"], 0)
        self.assertEqual(at[2, "exact", "flat"]["bytes_slow"], 0)

    def test_a_slow_network_makes_more_ranks_slower(self):
        slow = self.plan("--slow-rate", "1mbit", "--latency", "1ms")
        self.assertLessEqual(slow["best"]["ranks"], 2)
        self.assertIn("ranks are slower", slow["best"]["advice"])
        fast = self.plan("--slow-rate", "400gbit", "--latency", "1us", "--fast-latency", "1us")
        self.assertGreater(fast["best"]["ranks"], slow["best"]["ranks"])

    def test_time_lines(self):
        text = good("plan", *self.MACHINE, "--slow-rate", "100mbit", "--explain")
        self.assertIn("compute", text)
        self.assertIn("v-major sends", text)
        self.assertIn("pipelined on", text)

    def test_computing_is_measured_when_not_given(self):
        text = good("plan", "--model", MODEL, "--ranks", "1,2")
        self.assertIn("measured here, 1 thread", text)


if __name__ == "__main__":
    unittest.main()
