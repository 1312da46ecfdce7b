#!/usr/bin/env python3
"""dit compare, inspect and plan. Usage: commands_test.py DIT TINY_MODEL MANY_RUNS"""

import json
import math
import os
import struct
import subprocess
import unittest
from typing import Any

import broken_models
import ground
from ground import MODEL, good, run_program


class Program(unittest.TestCase):
    """The other tests call what the program's main calls; here is the program."""

    def test_it_does_what_it_is_told(self) -> None:
        result = run_program("generate", "--model", MODEL, "--steps", 2, "--seed", 5, "-o", "program.png")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("program.png: spots, seed 5", result.stdout)
        good("generate", "--model", MODEL, "--steps", 2, "--seed", 5, "-o", "function.png")
        self.assertEqual(ground.read("program.png"), ground.read("function.png"))

    def test_its_errors_are_a_line_and_a_status(self) -> None:
        result = run_program("generate", "--steps", 0)
        self.assertEqual(
            (result.returncode, result.stdout, result.stderr), (2, "", 'dit: --steps: "0", expected a whole number from 1 to 10000\n')
        )

    @unittest.skipUnless(os.path.exists("/dev/full"), "no device that is always full")
    def test_a_full_standard_output_is_an_error(self) -> None:
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [ground.DIT, "inspect", MODEL],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                env=ground.ENVIRONMENT,
                check=False,
            )
        self.assertEqual((result.returncode, result.stderr), (1, "dit: the standard output cannot be written\n"))


class Compare(unittest.TestCase):
    def test_fields(self) -> None:
        ramp = [i / 100 for i in range(16 * 16)]
        shifted = [value + 0.1 for value in ramp]
        for name, values in (("ramp", ramp), ("shifted", shifted)):
            broken_models.safetensors(f"{name}.safetensors", {"image": ("F32", [1, 16, 16], struct.pack(f"<{len(values)}f", *values))})
        report = json.loads(good("compare", "ramp.safetensors", "shifted.safetensors", "--range", 2, "--json"))
        self.assertFalse(report["equal"])
        self.assertAlmostEqual(report["mse"], 0.01, places=6)
        self.assertAlmostEqual(report["max_error"], 0.1, places=5)
        self.assertAlmostEqual(report["psnr_db"], 10 * math.log10(2**2 / 0.01), places=3)
        self.assertLess(report["ssim"], 1)
        same = json.loads(good("compare", "ramp.safetensors", "ramp.safetensors", "--json"))
        self.assertEqual((same["equal"], same["psnr_db"], same["ssim"]), (True, None, 1))

    def test_pictures_and_their_difference(self) -> None:
        for seed in (1, 2):
            good("generate", "--model", MODEL, "--steps", 2, "--seed", seed, "-o", f"{seed}.png")
        text = good("compare", "1.png", "2.png", "--difference", "difference.png")
        self.assertIn("dB", text)
        self.assertEqual(json.loads(good("inspect", "--json", "difference.png"))["size"], "32x32")
        self.assertIn("infinite (equal)", good("compare", "1.png", "1.png"))

    def test_what_is_not_finite_is_not_equal(self) -> None:
        values = [i / 100 for i in range(64)]
        values[9] = math.nan
        broken_models.safetensors("nan.safetensors", {"image": ("F32", [1, 8, 8], struct.pack("<64f", *values))})
        self.assertIn("not all values are finite", good("compare", "nan.safetensors", "nan.safetensors"))
        report = json.loads(good("compare", "nan.safetensors", "nan.safetensors", "--json"))
        self.assertEqual((report["equal"], report["finite"], report["psnr_db"]), (False, False, None))

    def test_latents_carry_their_range(self) -> None:
        good("generate", "--model", MODEL, "--steps", 2, "--save-latents", "range.safetensors")
        self.assertEqual(json.loads(good("compare", "range.safetensors", "range.safetensors", "--json"))["range"], 4)


class Inspect(unittest.TestCase):
    def test_a_model_adds_up(self) -> None:
        report = json.loads(good("inspect", MODEL, "--json"))
        self.assertEqual(report["config"]["network"]["width"], 32)
        self.assertEqual(report["text"]["made"], "for tests")
        elements = sum(math.prod(tensor["shape"]) for tensor in report["tensors"])
        self.assertEqual(report["elements"], elements)
        self.assertEqual(report["bytes"], 4 * elements)
        self.assertIn(f"{len(report['tensors'])} tensors, {elements} elements", good("inspect", MODEL))

    def test_a_file_alone(self) -> None:
        whole = json.loads(good("inspect", MODEL, "--json"))["tensors"]
        self.assertEqual(json.loads(good("inspect", MODEL + "/model.safetensors", "--json"))["tensors"], whole)

    def test_an_index_with_shards(self) -> None:
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

    def plan(self, *more: object) -> dict[str, Any]:
        return json.loads(good("plan", *self.MACHINE, *more, "--json", "-"))

    def test_rows(self) -> None:
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

    def test_a_slow_network_makes_more_ranks_slower(self) -> None:
        slow = self.plan("--slow-rate", "1mbit", "--latency", "1ms")
        self.assertLessEqual(slow["best"]["ranks"], 2)
        self.assertIn("ranks are slower", slow["best"]["advice"])
        fast = self.plan("--slow-rate", "400gbit", "--latency", "1us", "--fast-latency", "1us")
        self.assertGreater(fast["best"]["ranks"], slow["best"]["ranks"])

    def test_any_policy(self) -> None:
        at = {}
        for policy in ("v-major", "v-major:format=fp8", "bf16", "balanced"):
            for row in self.plan("--slow-rate", "100mbit", "--policy", policy)["rows"]:
                if row["policy"] != "exact" and row["ranks"] == 4 and row["schedule"] == "flat":
                    at[policy] = row
        self.assertEqual([row["policy"] for row in at.values()], ["v-major", "v-major", "bf16", "balanced"])
        exact = self.plan("--slow-rate", "100mbit")["rows"][4]
        self.assertEqual((exact["ranks"], exact["schedule"], exact["policy"]), (4, "flat", "exact"))
        self.assertAlmostEqual(at["bf16"]["bytes_slow"], exact["bytes_slow"] / 2)
        self.assertLess(at["v-major:format=fp8"]["bytes_slow"], 0.3 * at["v-major"]["bytes_slow"])
        self.assertLess(at["balanced"]["step_ms"], at["bf16"]["step_ms"])
        self.assertEqual(at["bf16"]["cache_bytes"], 0)

    def test_time_lines(self) -> None:
        text = good("plan", *self.MACHINE, "--slow-rate", "100mbit", "--explain")
        self.assertIn("compute", text)
        self.assertIn("v-major sends", text)
        self.assertIn("pipelined on", text)

    def test_computing_is_measured_when_not_given(self) -> None:
        text = good("plan", "--model", MODEL, "--ranks", "1,2")
        self.assertIn("measured here, 1 thread", text)


@unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(ground.DIT), "tapa-sim")), "built without SimGrid")
class Sim(unittest.TestCase):
    def test_rows_of_a_simulated_machine(self) -> None:
        words = ("sim", "--machine", "polaris", "--model", "sd35-large", "--size", 512, "--nodes", "1,2", "--json", "-")
        text = run_program(*words).stdout
        report = json.loads(text)
        self.assertEqual((report["machine"], report["model"]), ("polaris", "sd35-large"))
        rows = {(row["nodes"], row["name"]): row for row in report["rows"]}
        self.assertEqual({name for nodes, name in rows if nodes == 1}, {"flat", "+TAPA", "+V-First", "pipelined"})
        self.assertEqual(len(rows), 4 + 7)
        for nodes in (1, 2):
            exact = [rows[nodes, name] for name in ("+TAPA", "+V-First", "pipelined")]
            times = [row["step_ms"] for row in exact]
            self.assertEqual(times, sorted(times, reverse=True), "an order that hides more is not slower")
            for row in exact:
                self.assertAlmostEqual(row["compute_ms"], exact[0]["compute_ms"], places=6)
                self.assertAlmostEqual(row["step_ms"], row["compute_ms"] + row["exposed_ms"], places=6)
                self.assertAlmostEqual(row["ratio_to_flat"], rows[nodes, "flat"]["step_ms"] / row["step_ms"], places=6)
        self.assertEqual((rows[1, "flat"]["ranks"], rows[2, "flat"]["ranks"]), (4, 8))
        exchanges = [rows[2, name]["exchange_ms"] for name in ("+V-First", "V-Major", "fp8 on slow links", "int4 residuals on slow links")]
        self.assertEqual(exchanges, sorted(exchanges, reverse=True), "fewer bytes take less time")
        self.assertEqual(run_program(*words).stdout, text, "simulations repeat to the last digit")

    def test_misuse(self) -> None:
        for words, message in (
            (["--model", "x"], 'model "x" is not published: expected one of flux1-dev, qwen-image, flux2-dev, sd35-large'),
            (["--size", "100"], "size is 100: expected a multiple of 16"),
            (["--nodes", "0"], '--nodes: "0"'),
            (["--machine", "cpu-2socket"], "--flops is not given: expected what a rank of cpu-2socket computes"),
            (["--machine", "nowhere"], 'machine "nowhere" cannot be simulated, expected a file.json or one of'),
        ):
            result = run_program("sim", *words)
            self.assertNotEqual(result.returncode, 0, words)
            self.assertIn(message, result.stderr)
            self.assertEqual(result.stdout, "")


class Profile(unittest.TestCase):
    def test_cells_and_picture(self) -> None:
        text = good("profile", "--model", MODEL, "--steps", 6, "--json", "profile.json", "--plot", "profile.png")
        self.assertIn("residual int2", text)
        report = json.loads(ground.read("profile.json"))
        self.assertEqual(len(report["cells"]), 4 * report["layers"] * 6)
        modes = [mode["mode"] for mode in report["modes"]]
        for cell in report["cells"]:
            self.assertEqual(len(cell["errors"]), len(modes))
            if cell["step"] > 0:
                self.assertLess(abs(cell["cosine"]), 1.0001)
                self.assertLess(cell["errors"][modes.index("bf16")], 0.004)
        self.assertIn("steps", json.dumps(json.loads(good("inspect", "--json", "profile.png"))).lower())


class Coding(unittest.TestCase):
    def report(self, *words: object) -> dict[str, Any]:
        good("generate", "--model", MODEL, "--steps", 3, "--ranks", 2, "--ranks-per-node", 1, *words, "--json", "coding.json")
        return json.loads(ground.read("coding.json"))

    def test_a_preset_is_off_where_it_saves_nothing(self) -> None:
        words = ("--dtype", "bf16", "--policy", "bf16", "--rate", "1gbit")
        report = self.report(*words)
        self.assertEqual([(level["level"], level["share"], level["pays"]) for level in report["coding"]], [("world", 1, False)])
        self.assertEqual(report["off"], "world")
        report = self.report(*words, "--coding", "always")
        self.assertEqual(report["coding"], [])
        self.assertNotIn("off", report)

    def test_a_preset_is_on_where_links_are_slow(self) -> None:
        report = self.report("--policy", "fp8", "--rate", "10mbit")
        self.assertEqual([level["pays"] for level in report["coding"]], [True])
        self.assertNotIn("off", report)

    def test_threads_are_no_links(self) -> None:
        self.assertEqual(self.report("--policy", "fp8")["coding"], [])


class PlanPolicy(unittest.TestCase):
    MADE = ("--model", MODEL, "--steps", 8)

    def test_a_part_of_the_bytes(self) -> None:
        text = good("plan", *self.MADE, "--bytes", 0.3, "-o", "few.json")
        self.assertIn("dB to the exact image", text)
        again = good("plan", *self.MADE, "--bytes", 0.3, "-o", "again.json")
        self.assertEqual(text.replace("few", "again"), again)
        self.assertEqual(ground.read("few.json"), ground.read("again.json"))
        good(
            "bench",
            *self.MADE,
            "--ranks",
            3,
            "--ranks-per-node",
            1,
            "--policies",
            "exact," + ground.path("few.json"),
            "--json",
            "few-bench.json",
        )
        rows = json.loads(ground.read("few-bench.json"))["rows"]
        self.assertLess(rows[2]["bytes_slow"], 0.36 * rows[0]["bytes_slow"])  # of flat's 16-bit numbers

    def test_a_quality(self) -> None:
        good("plan", *self.MADE, "--quality", "40dB", "-o", "good.json", "--ranks", 3)
        good("generate", *self.MADE, "--ranks", 3, "--ranks-per-node", 1, "--save-latents", "exact.safetensors")
        good("generate", *self.MADE, "--ranks", 3, "--ranks-per-node", 1, "--policy", "good.json", "--save-latents", "good.safetensors")
        report = json.loads(good("compare", "exact.safetensors", "good.safetensors", "--json"))
        self.assertGreater(report["psnr_db"], 39.5)

    def test_misuse(self) -> None:
        for arguments, words in (
            (("--quality", "40dB"), "a policy is asked for: expected -o FILE for it"),
            (("-o", "x.json"), "-o is for a policy: expected --quality or --bytes"),
            (("--quality", "-1", "-o", "x.json"), '"-1", expected decibels'),
            (("--bytes", 0.3, "-o", "x.json", "--ranks", "2,4"), "--ranks is 2,4, expected one number for a policy"),
            (
                ("--bytes", 0.3, "-o", "x.json", "--ranks", 2, "--ranks-per-node", 2),
                "--ranks-per-node is 2, expected less than 2 ranks: only links between nodes have policies",
            ),
        ):
            result = ground.run("plan", *self.MADE, *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
