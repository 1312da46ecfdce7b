#!/usr/bin/env python3
"""dit generate, check and bench with threads as ranks. Usage: generate_test.py DIT TINY_MODEL MANY_RUNS"""

import json
import struct
import unittest
import xml.etree.ElementTree

import ground
from ground import MODEL, good, run

SMALL = ["--model", MODEL, "--class", "spots", "--seed", "7", "--steps", "4"]


def distance(a: str, b: str) -> float:
    """Largest difference of two latents files over the largest value."""

    def values(name: str) -> tuple[float, ...]:
        return struct.unpack(f"<{len(ground.field(name)) // 4}f", ground.field(name))

    x, y = values(a), values(b)
    return max(abs(p - q) for p, q in zip(x, y, strict=True)) / max(map(abs, x))


def png_text(name: str) -> dict[str, str]:
    return json.loads(good("inspect", "--json", name))["text"]


class Generate(unittest.TestCase):
    def test_the_same_run_makes_the_same_file(self) -> None:
        for out in ("a.png", "b.png"):
            good("generate", *SMALL, "--ranks", 2, "--schedule", "v-first", "-o", out)
        self.assertEqual(ground.read("a.png"), ground.read("b.png"))

    def test_a_seed_and_a_class_make_another_image(self) -> None:
        good("generate", *SMALL, "-o", "a.png")
        good("generate", *SMALL, "--seed", 8, "-o", "seed.png")
        good("generate", *SMALL, "--class", 1, "-o", "class.png")
        self.assertNotEqual(good("compare", "--json", "a.png", "seed.png"), good("compare", "--json", "a.png", "a.png"))
        good("generate", *SMALL, "--seed", 7 + 2**32, "-o", "large.png")
        for other in ("seed.png", "class.png", "large.png"):
            self.assertFalse(json.loads(good("compare", "--json", "a.png", other))["equal"])

    def test_the_file_tells_how_it_was_made(self) -> None:
        good("generate", *SMALL, "--size", "32x48", "--ranks", 3, "--schedule", "pipelined", "-o", "text.png")
        text = png_text("text.png")
        expected = {
            "class": "0",
            "class_name": "spots",
            "seed": "7",
            "size": "32x48",
            "steps": "4",
            "ranks": "3",
            "plugin": "local",
            "schedule": "pipelined",
            "policy": "exact",
        }
        self.assertEqual({key: text[key] for key in expected}, expected)

    def test_ranks_change_only_roundings(self) -> None:
        good("generate", *SMALL, "--save-latents", "one.safetensors")
        for ranks in (3, 5):
            good("generate", *SMALL, "--ranks", ranks, "--save-latents", "many.safetensors")
            self.assertLess(distance("one.safetensors", "many.safetensors"), 1e-5)

    def test_the_schedule_is_chosen_when_nobody_says(self) -> None:
        good("generate", *SMALL, "--ranks", 2, "-o", "auto.png")
        self.assertIn(png_text("auto.png")["schedule"], ("flat", "v-first", "pipelined"))

    def test_report(self) -> None:
        report = json.loads(
            good(
                "generate",
                *SMALL,
                "--ranks",
                4,
                "--ranks-per-node",
                2,
                "--schedule",
                "flat",
                "--policy",
                "v-major:warmup=1,refresh=0,ratio=0.5",
                "--json",
                "-",
                "--quiet",
            )
        )
        self.assertEqual(report["ranks"], "4")
        self.assertEqual(len(report["steps"]), 4)
        self.assertEqual(report["steps"][0]["active_fraction"], 1)
        self.assertEqual(report["steps"][2]["active_fraction"], 0.5)
        for key in ("seconds", "step_ms", "bytes_slow", "bytes_fast", "cache_bytes"):
            self.assertGreater(report[key], 0, key)

    def test_trace_has_all_ranks_on_one_clock(self) -> None:
        good("generate", *SMALL, "--ranks", 3, "--schedule", "v-first", "--trace", "trace.json")
        events = json.loads(ground.read("trace.json"))
        events = events["traceEvents"] if isinstance(events, dict) else events
        spans = [event for event in events if event.get("ph") == "X"]
        self.assertEqual({span["pid"] for span in spans}, {0, 1, 2})
        begins = [min(span["ts"] for span in spans if span["pid"] == rank) for rank in range(3)]
        ends = [max(span["ts"] + span["dur"] for span in spans if span["pid"] == rank) for rank in range(3)]
        self.assertLess(max(begins), min(ends))  # ranks overlap: nobody's clock is elsewhere

    def test_quiet(self) -> None:
        result = run("generate", *SMALL, "--quiet", "-o", "quiet.png")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))


class Check(unittest.TestCase):
    def test_all_schedules_on_several_rank_counts(self) -> None:
        text = good("check", "--model", MODEL, "--ranks", "3,1,5,3", "--json", "check.json")
        report = json.loads(ground.read("check.json"))
        self.assertTrue(report["good"])
        self.assertEqual(
            [(r["ranks"], r["schedule"]) for r in report["runs"]],
            [(ranks, name) for ranks in (1, 3, 5) for name in ("flat", "v-first", "pipelined")],
        )
        for line in report["runs"]:
            self.assertEqual(len(line["layers"]), 2)
            self.assertTrue(line["equals_flat"])
            self.assertLess(line["image"]["relative"], 1e-5)
        self.assertEqual(report["runs"][0]["image"]["largest"], 0)
        self.assertRegex(text, r"(?m)^layer 1  +0  +[0-9.e-]+  +[0-9.e-]+$")
        self.assertRegex(text, r"(?m)^bits of flat  +yes  +yes  +yes$")
        self.assertIn("good:", text)

    def test_its_table_fits_in_a_line(self) -> None:
        text = good("check", "--model", MODEL, "--schedules", "flat", "--size", 16, "--steps", 1, "--ranks", "1,2,3,4,5,6,7,8,9,10")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertEqual(text.count("layer 1 "), 2)  # two tables

    def test_a_difference_above_the_tolerance_is_status_1(self) -> None:
        result = run("check", "--model", MODEL, "--ranks", "3", "--tolerance", "1e-30", "--json", "tight.json")
        if result.returncode == 0:  # good only if there is no difference
            self.assertEqual({line["image"]["largest"] for line in json.loads(ground.read("tight.json"))["runs"]}, {0})
            self.skipTest("with this libtorch three ranks have the bits of one")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^dit: relative difference [0-9.e-]+ \(.* on 3 ranks, .*\), expected at most 1.00e-30\n$")
        self.assertIn("layer 0", result.stdout)


class Bench(unittest.TestCase):
    KEYS = {
        "name",
        "plugin",
        "schedule",
        "policy",
        "step_ms",
        "exposed_ms",
        "bytes_slow",
        "cache_bytes",
        "psnr_db",
        "ssim",
        "ratio_to_flat",
    }

    def test_the_default_rows(self) -> None:
        good(
            "bench",
            *SMALL,
            "--steps",
            8,
            "--ranks",
            4,
            "--ranks-per-node",
            2,
            "--repeat",
            2,
            "--seeds",
            2,
            "--json",
            "bench.json",
            "--plot",
            "bench.svg",
            "--images",
            "images",
            "--trace",
            "bench-trace.json",
        )
        report = json.loads(ground.read("bench.json"))
        rows = {row["name"]: row for row in report["rows"]}
        self.assertEqual(list(rows), ["flat", "+V-First", "pipelined", "+V-Major"])
        self.assertIn("processor", report["machine"])
        self.assertEqual(report["model"]["steps"], 8)
        for row in rows.values():
            self.assertLessEqual(self.KEYS, row.keys())
            self.assertGreater(row["step_ms"], 0)
        self.assertEqual(rows["flat"]["ratio_to_flat"], 1)
        for name in ("flat", "+V-First", "pipelined"):  # exact: the same bits, so no finite PSNR
            self.assertIsNone(rows[name]["psnr_db"])
            self.assertEqual(rows[name]["ssim"], 1)
            self.assertEqual(rows[name]["cache_bytes"], 0)
        approximate = rows["+V-Major"]
        self.assertGreater(approximate["psnr_db"], 10)
        self.assertLess(approximate["bytes_slow"], rows["flat"]["bytes_slow"])
        self.assertGreater(approximate["cache_bytes"], 0)
        self.assertIn(approximate["schedule"], ("flat", "v-first", "pipelined"))
        svg = xml.etree.ElementTree.fromstring(ground.read("bench.svg"))
        self.assertEqual(len(svg.findall("{http://www.w3.org/2000/svg}rect")), 1 + 2 + 2 * len(rows))
        self.assertEqual(ground.read("images/flat-0.png"), ground.read("images/pipelined-0.png"))
        self.assertEqual(json.loads(good("inspect", "--json", "images/grid.png"))["size"], "140x68")
        json.loads(ground.read("bench-trace-_V-Major.json"))

    def test_rows_of_ones_own(self) -> None:
        good(
            "bench",
            *SMALL,
            "--ranks",
            2,
            "--quiet",
            "--json",
            "rows.json",
            "--rows",
            "a=local/pipelined/exact/batched/2;b=local/v-first/v-major:warmup=2,ratio=0.5;flat",
        )
        rows = json.loads(ground.read("rows.json"))["rows"]
        self.assertEqual(
            [(row["name"], row["schedule"], row["head_groups"]) for row in rows],
            [("a", "pipelined", 2), ("b", "v-first", 1), ("flat", "flat", 1)],
        )

    def test_rows_of_v_major_in_all_formats(self) -> None:
        with open(ground.path("rows.json"), "w") as file:
            file.write("""{"format": "dit-wire-policy", "version": 1, "name": "mine", "momentum": 0.5, "rules": [
                {"mode": "residual int8"},
                {"mode": "v-major 0.5 residual int4", "steps": [2, -1], "tensors": ["q", "k", "v"]}]}""")
        good(
            "bench",
            *SMALL,
            "--ranks",
            4,
            "--ranks-per-node",
            2,
            "--steps",
            8,
            "--quiet",
            "--json",
            "rows-report.json",
            "--policies",
            "exact,v-major:warmup=2,ratio=0.5,v-major:warmup=2,ratio=0.5,format=fp8,"
            f"v-major:warmup=2,ratio=0.5,format=residual-int4,{ground.path('rows.json')}",
        )
        rows = json.loads(ground.read("rows-report.json"))["rows"]
        self.assertEqual(
            [row["policy"] for row in rows][1:],
            [
                "exact",
                "v-major:warmup=2,refresh=10,ratio=0.5",
                "v-major:warmup=2,refresh=10,ratio=0.5,format=fp8",
                "v-major:warmup=2,refresh=10,ratio=0.5,format=residual-int4",
                "mine",
            ],
        )
        exact, full, fp8, int4, mine = (row["bytes_slow"] for row in rows[1:])
        self.assertLess(full, 0.8 * exact)
        self.assertAlmostEqual(fp8 / full, 0.27, 1)
        self.assertLess(int4, fp8)
        self.assertLess(mine, 0.25 * exact)
        for row in rows[2:]:
            self.assertEqual(row["active_fraction"], (2 + 6 * 0.5) / 8)
            self.assertGreater(row["oldest_row"], 1)
            self.assertGreater(row["psnr_db"], 20)

    def test_policies(self) -> None:
        good(
            "bench",
            *SMALL,
            "--ranks",
            4,
            "--ranks-per-node",
            2,
            "--steps",
            12,
            "--guidance",
            2,
            "--quiet",
            "--json",
            "policies.json",
            "--policies",
            "exact,balanced,fast,balanced+step-cache:0.05,rivals",
        )
        rows = {row["name"]: row for row in json.loads(ground.read("policies.json"))["rows"]}
        self.assertEqual(
            list(rows),
            [
                "flat",
                "exact",
                "balanced",
                "fast",
                "balanced+step-cache:0.05",
                "bf16",
                "fp8",
                "paper",
                "displaced",
                "bf16+step-cache:0.15",
                "bf16/parallel",
            ],
        )
        self.assertEqual(rows["flat"]["ratio_to_flat"], 1)
        self.assertEqual(rows["exact"]["cache_bytes"], 0)
        self.assertAlmostEqual(rows["flat"]["bytes_slow"] / rows["exact"]["bytes_slow"], 0.5, 2)
        self.assertLess(rows["balanced"]["bytes_slow"], 0.5 * rows["flat"]["bytes_slow"])
        self.assertLess(rows["fast"]["bytes_slow"], rows["balanced"]["bytes_slow"] * 1.01)
        self.assertGreater(rows["balanced"]["codec_ms"], 0)
        self.assertGreater(rows["balanced"]["psnr_db"], 20)
        self.assertEqual(rows["paper"]["policy"], "v-major:warmup=5,refresh=10,ratio=linear,format=bf16")
        self.assertLess(rows["paper"]["bytes_slow"], rows["flat"]["bytes_slow"])
        self.assertLess(rows["bf16/parallel"]["bytes_slow"], 0.6 * rows["flat"]["bytes_slow"])  # only the velocities
        self.assertEqual(len(rows["fast"]["judged"]), 1)
        self.assertGreater(sum(rows["fast"]["rows_by_age"]), 0)
        self.assertEqual(rows["bf16"]["rows_by_age"], [])

    def test_timed_steps(self) -> None:
        words = (
            "bench",
            *SMALL,
            "--ranks",
            4,
            "--ranks-per-node",
            2,
            "--steps",
            24,
            "--quiet",
            "--json",
            "timed.json",
            "--policies",
            "exact,fast,paper,displaced,balanced+step-cache:0.15",
        )
        good(*words, "--timed-steps", 2)
        timed = {row["name"]: row for row in json.loads(ground.read("timed.json"))["rows"]}
        good(*words)
        whole = {row["name"]: row for row in json.loads(ground.read("timed.json"))["rows"]}
        for name, row in timed.items():
            self.assertEqual(row["images"], 0)
            self.assertEqual(row["reused_steps"], 0)
            if "step-cache" in name:
                continue
            self.assertAlmostEqual(row["bytes_slow"] / whole[name]["bytes_slow"], 1, 1)
            self.assertGreater(row["ratio_to_flat"], 0)

    def test_fields_of_all_rows(self) -> None:
        good("bench", *SMALL, "--ranks", 2, "--ranks-per-node", 1, "--seeds", 3, "--quiet", "--fields", "fields", "--policies", "exact,fp8")
        for row in ("flat", "exact", "fp8"):
            text = good("inspect", f"fields/{row}.safetensors")
            self.assertRegex(text, r"fields +F32 +3 x 2 x")


if __name__ == "__main__":
    unittest.main()
