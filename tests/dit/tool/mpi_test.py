#!/usr/bin/env python3
"""dit under an MPI launcher: the same fields as with threads, and errors that end every rank.
Usage: mpi_test.py DIT TINY_MODEL MANY_RUNS LAUNCHER..."""

import json
import os
import unittest
from collections.abc import Sequence
from typing import Any

import broken_models
import ground
from ground import MODEL, good, run

SMALL = ["--model", MODEL, "--seed", 7, "--steps", 3, "--schedule", "v-first"]


class Fields(unittest.TestCase):
    def test_plugins_and_threads_make_equal_fields(self) -> None:
        good("generate", *SMALL, "--ranks", 3, "--save-latents", "threads.safetensors")
        for plugin in ("mpi", "tapa"):
            good("generate", *SMALL, "--plugin", plugin, "--save-latents", f"{plugin}.safetensors", ranks=3)
            self.assertEqual(ground.field("threads.safetensors"), ground.field(f"{plugin}.safetensors"), plugin)

    def test_a_plugin_is_found_without_being_named(self) -> None:
        good("generate", *SMALL, "-o", "named.png", ranks=2)
        text = json.loads(good("inspect", "--json", "named.png"))["text"]
        self.assertEqual((text["plugin"], text["ranks"]), ("tapa", "2"))

    def test_trace_of_processes(self) -> None:
        good("generate", *SMALL, "--trace", "trace.json", ranks=3)
        events = json.loads(ground.read("trace.json"))
        events = events["traceEvents"] if isinstance(events, dict) else events
        self.assertEqual({event["pid"] for event in events if event.get("ph") == "X"}, {0, 1, 2})

    def test_check(self) -> None:
        self.assertIn("good:", good("check", "--model", MODEL, "--schedules", "v-first", ranks=3))

    def test_both_plugins_in_one_job(self) -> None:
        good("bench", "--model", MODEL, "--steps", 3, "--json", "bench.json", "--quiet", ranks=3)
        report = json.loads(ground.read("bench.json"))
        self.assertEqual(
            [(row["name"], row["plugin"]) for row in report["rows"]],
            [("flat", "mpi"), ("+TAPA", "tapa"), ("+V-First", "tapa"), ("pipelined", "tapa"), ("+V-Major", "tapa")],
        )
        for row in report["rows"]:
            self.assertIsNone(row["psnr_db"])  # one node: nothing is slow, so V-Major sends all

    def test_plan_measures_the_links(self) -> None:
        self.assertIn("(measured", good("plan", "--model", MODEL, "--ranks", "1,2,3", ranks=3))


class Errors(unittest.TestCase):
    """Each ends all three ranks, is said once, and has a status."""

    TABLE = [
        (
            ["generate", *SMALL, "--class", "dots", "-o", "x.png"],
            2,
            "class 'dots': expected a number from 0 to 2 or one of spots, stripes, waves",
        ),
        (["generate", *SMALL, "--steps", "0", "-o", "x.png"], 2, '--steps: "0", expected a whole number from 1 to 10000'),
        (["generate", *SMALL, "-o", "/nonexistent/x.png"], 2, "-o /nonexistent/x.png: there is no folder /nonexistent"),
        (
            ["generate", *SMALL, "--plugin", "local", "-o", "x.png"],
            2,
            "--plugin is local, but this is a job of 3 processes: expected mpi, tapa or another plugin that joins processes",
        ),
        (["generate", *SMALL, "--ranks", "2", "-o", "x.png"], 2, "--ranks is 2, but the job has 3 processes: leave it out"),
        (
            ["generate", *SMALL, "--guidance-mode", "parallel", "-o", "x.png"],
            2,
            "guidance_mode = parallel: expected an even number of ranks for it, not 3",
        ),
        (["bench", "--model", MODEL, "--json", "/nonexistent/x"], 2, "--json /nonexistent/x: there is no folder /nonexistent"),
        (
            ["bench", "--model", MODEL, "--images", MODEL + "/config.json"],
            2,
            f"--images {MODEL}/config.json: expected a folder, or a place for a new one (Not a directory)",
        ),
        (["check", "--model", MODEL, "--ranks", "1,3"], 2, "--ranks is for threads, but this job has its processes: leave it out"),
    ]

    def check(self, arguments: Sequence[object], status: int, message: str, **how: Any) -> None:
        result = run(*arguments, ranks=3, timeout=60, **how)
        said = [line for line in result.stderr.splitlines() if line.startswith("dit: ")]
        self.assertEqual(said, ["dit: " + message], result.stderr)
        self.assertEqual(result.returncode, status)

    def test_table(self) -> None:
        for arguments, status, message in self.TABLE:
            with self.subTest(arguments=arguments):
                self.check(arguments, status, message)

    def test_a_broken_model(self) -> None:
        folder = broken_models.cut_short("cut")
        result = run("generate", "--model", folder, "-o", "x.png", ranks=3, timeout=60)
        said = [line for line in result.stderr.splitlines() if line.startswith("dit: ")]
        self.assertEqual(len(said), 1, result.stderr)
        self.assertIn(folder, said[0])
        self.assertEqual(result.returncode, 1)

    def started_by(self, script: str, *arguments: object) -> tuple[list[str], int]:
        """What dit said when each rank is started by that script, and the status."""
        file_name = ground.path("odd.sh")
        with open(file_name, "w", encoding="utf8") as file:
            file.write("#!/bin/sh\nrank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n" + script)
        os.chmod(file_name, 0o755)
        program, ground.DIT = ground.DIT, file_name
        try:
            result = run(*arguments, ranks=3, timeout=60)
        finally:
            ground.DIT = program
        return [line for line in result.stderr.splitlines() if line.startswith("dit: ")], result.returncode

    def with_one_odd_rank(self, odd: str, even: str, *arguments: object) -> tuple[list[str], int]:
        """Rank 1 is started with the words `odd`, the others with `even`."""
        return self.started_by(f'[ "$rank" = 1 ] && words="{odd}" || words="{even}"\nexec {ground.DIT} "$@" $words\n', *arguments)

    def test_one_rank_alone_has_no_model(self) -> None:
        """A node whose copy of the model is missing: its rank says so, and no other waits for it."""
        said, status = self.with_one_odd_rank(
            f"--model {ground.path('elsewhere')}", f"--model {MODEL}", "generate", "--steps", 2, "-o", "x.png"
        )
        self.assertEqual(
            said, [f"dit: rank 1: {ground.path('elsewhere')}: not a folder, expected one with config.json and model.safetensors"]
        )
        self.assertEqual(status, 1)

    def test_one_rank_alone_has_another_seed(self) -> None:
        said, status = self.with_one_odd_rank(
            "--seed 8", "--seed 7", "generate", "--model", MODEL, "--steps", 2, "--schedule", "flat", "-o", "x.png"
        )
        self.assertEqual(said, ["dit: options of rank 1 is not that of rank 0: expected the same on all ranks"])
        self.assertEqual(status, 2)

    def test_one_rank_stops(self) -> None:
        """The others wait for it in vain, and one of them tells; both where the job takes long to end."""
        said, status = self.started_by(
            "stop_later() { until grep -q exchange-tapa /proc/$$/maps; do sleep 0.2; done; sleep 4; kill -STOP $$; }\n"
            f'[ "$rank" = 1 ] && stop_later &\nexec {ground.DIT} "$@"\n',
            "generate",
            "--model",
            MODEL,
            "--size",
            128,
            "--steps",
            1000,
            "--timeout",
            "2s",
            "--schedule",
            "flat",
            "-o",
            "x.png",
        )
        self.assertIn(len(said), (1,) if ground.FACTOR == 1 else (1, 2), said)
        for line in said:
            self.assertRegex(line, r"^dit: rank [02]: .* has not ended after .* the limit is 2\.0* s")
        self.assertEqual(status, 1)

    def test_one_rank_alone_has_wrong_words(self) -> None:
        """It never joins the job, which its launcher then ends."""
        said, status = self.with_one_odd_rank("--steps 0", "--steps 2", "generate", "--model", MODEL, "-o", "x.png")
        self.assertEqual(said, ['dit: rank 1: --steps: "0", expected a whole number from 1 to 10000'])
        self.assertEqual(status, 2)


if __name__ == "__main__":
    unittest.main()
