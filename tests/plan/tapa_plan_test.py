#!/usr/bin/env python3
"""Tests of tapa-plan: what it prints adds up, and bad input is refused in words. Usage: tapa_plan_test.py PROGRAM"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from typing import Any

PROGRAM = sys.argv.pop(1)
SIZE = "expected a number of bytes up to 1024G, such as 4096, 64K or 1M"
WHOLE = "expected a whole number from "


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)


def plan(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class Aurora(unittest.TestCase):
    """24 ranks on two nodes, split at the tile pair, 1 MiB a block: the paper's two phases."""

    def setUp(self) -> None:
        self.plan = plan("--topology", "aurora", "--ranks", "24", "--split", "tile", "--bytes", "1048576", "--verify")

    def test_phases(self) -> None:
        block, ranks = 1 << 20, 24
        fast, slow = self.plan["phases"]
        self.assertEqual(fast["messages"], ranks)
        self.assertEqual(fast["bytes"], ranks * ranks // 2 * block)
        self.assertEqual([level["name"] for level in fast["levels"]], ["tile"])
        self.assertEqual(fast["busiest"], {"messages": 1, "bytes": 12 * block})
        self.assertEqual(slow["messages"], ranks * 11)
        self.assertEqual(slow["bytes"], ranks * 11 * 2 * block)
        self.assertEqual({level["name"]: level["messages"] for level in slow["levels"]}, {"node": ranks * 5, "world": ranks * 6})
        self.assertEqual(self.plan["defects"], [])

    def test_totals(self) -> None:
        self.assertEqual(self.plan["schema"], "tapa-plan/1")
        self.assertEqual(self.plan["choice"], "tapa:split=tile")
        self.assertEqual(self.plan["ranks"], 24)
        self.assertEqual(self.plan["block_bytes"], 1 << 20)
        for key in ("messages", "bytes"):
            self.assertEqual(self.plan[key], sum(phase[key] for phase in self.plan["phases"]))
            self.assertEqual(self.plan[key], sum(level[key] for level in self.plan["levels"]))
        crossing = next(level["bytes"] for level in self.plan["levels"] if level["name"] == "world")
        self.assertEqual(crossing, 2 * 12 * 12 << 20)
        self.assertEqual(len(self.plan["nics"]), 16)
        self.assertEqual(sum(nic["bytes"] for nic in self.plan["nics"]), crossing)
        self.assertGreater(self.plan["seconds"], 0)


class Output(unittest.TestCase):
    def test_several_sizes_are_an_array(self) -> None:
        plans = plan("--topology", "2x2", "--bytes", "0,3,2K")
        self.assertEqual([p["block_bytes"] for p in plans], [0, 3, 2048])
        self.assertEqual(plans[0]["messages"], 0)

    def test_the_library_chooses_and_says_why(self) -> None:
        one = plan("--topology", "4x4", "--bytes", "64")
        table = plan("--topology", "4x4", "--bytes", "64", "--compare")
        self.assertEqual(one["choice"], table["compare"][0]["choice"])
        self.assertTrue(one["why"].startswith(one["choice"]), one["why"])
        seconds = [row["seconds"] for row in table["compare"]]
        self.assertEqual(seconds, sorted(seconds))
        linear = next(row for row in table["compare"] if row["choice"] == "linear")
        self.assertEqual((linear["messages"], linear["bytes"], linear["most_sends"]), (240, 240 * 64, 15))
        self.assertEqual((linear["nic_messages"], linear["busiest_nic_bytes"]), (192, 48 * 64))

    def test_a_forced_plan_joins_the_comparison(self) -> None:
        rows = plan("--topology", "4x4", "--plan", "linear:window=5", "--compare")["compare"]
        self.assertEqual(rows[0]["choice"], "linear:window=5")

    def test_single_settings_make_the_choice(self) -> None:
        for arguments, choice in [
            (["--algorithm", "bruck", "--radix", "4"], "bruck:radix=4"),
            (["--radix", "4"], "bruck:radix=4"),
            (["--window", "2"], "linear:window=2"),
            (["--split", "node", "--order", "slow-first"], "tapa:split=node,order=slow-first"),
            (["--split", "node", "--radix", "3"], "tapa:split=node,slow=bruck(3)"),
            (["--split", "socket,node", "--pipeline", "2"], "tapa:split=socket+node,pipeline=2"),
            (["--split", "node", "--leaders", "all"], "leaders:split=node,leaders=all"),
            (["--algorithm", "pairwise"], "pairwise"),
        ]:
            self.assertEqual(plan("--topology", "2x2x3", *arguments)["choice"], choice)

    def test_round_robin_moves_ranks(self) -> None:
        block = plan("--topology", "2x2", "--plan", "linear", "--steps")
        turn = plan("--topology", "2x2", "--plan", "linear", "--placement", "round-robin", "--steps")

        def messages(p: dict[str, Any]) -> list[int]:
            return [level["messages"] for level in p["levels"]]

        def first(p: dict[str, Any]) -> int:
            return next(s["peer"] for s in p["steps"][0] if s["kind"] == "send" and s["phase"] == 0)

        self.assertEqual(messages(block), messages(turn))
        split = ["--topology", "2x2", "--split", "node", "--steps"]
        self.assertEqual(first(plan(*split)), 1)
        self.assertEqual(first(plan(*split, "--placement", "round-robin")), 2)

    def test_steps_are_listed(self) -> None:
        p = plan("--topology", "2x2", "--bytes", "8", "--plan", "tapa:split=node", "--steps")
        sends = [s for rank in p["steps"] for s in rank if s["kind"] == "send"]
        self.assertEqual(len(sends), p["messages"])
        self.assertEqual(sum(s["bytes"] for s in sends), p["bytes"])
        for step in sends:
            self.assertEqual(step["bytes"], sum(s["bytes"] for s in step["from"]))
        text = run("--topology", "2x2", "--bytes", "8", "--plan", "linear", "--rank", "3").stdout
        self.assertIn("rank 3: 7 steps", text)
        self.assertIn("send to 0 [0..8)", text)
        self.assertNotIn("rank 2:", text)

    def test_text_has_the_totals(self) -> None:
        text = run("--topology", "2x3", "--bytes", "1K", "--plan", "linear", "--verify").stdout
        self.assertRegex(text, r"world +18 +18 KiB")
        self.assertIn("verified: every block arrives once", text)

    def test_counts_from_a_file(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# source x destination\n0 1K 7\n\n2,0,0\n3 0 5 # self\n")
            file.flush()
            p = plan("--topology", "3", "--plan", "bruck", "--counts", file.name, "--verify")
        self.assertIsNone(p["block_bytes"])
        self.assertEqual(p["bytes"], 1024 + 7 + 2 + 3)
        self.assertEqual(p["defects"], [])

    def test_svg_is_xml_with_a_panel_a_phase(self) -> None:
        for arguments in (
            ["--topology", "4x4", "--plan", "leaders:split=node"],
            ["--topology", "1"],
            ["--topology", "8x16", "--plan", "linear"],
        ):
            svg = xml.etree.ElementTree.fromstring(run(*arguments, "--svg").stdout)
            titles = [t.text for t in svg.findall("{http://www.w3.org/2000/svg}text") if t.get("font-size") == "16"]
            phases = plan(*arguments)["phases"]
            self.assertEqual(len(titles), sum(1 for p in phases if p["messages"] > 0))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "plan.svg")
            self.assertEqual(run("--topology", "4x4", "--svg", file).returncode, 0)
            xml.etree.ElementTree.parse(file)

    def test_help_lists_the_options(self) -> None:
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for option in ("--topology", "--compare", "--verify", "--svg", "--counts"):
            self.assertIn(option, result.stdout)


class SharedMemory(unittest.TestCase):
    """Inside a node the library takes plan `memory`, which sends no messages: nothing may show any."""

    def test_json_has_blocks_and_no_messages(self) -> None:
        p = plan("--topology", "1x4", "--bytes", "1K", "--verify", "--steps")
        self.assertEqual(p["choice"], "memory")
        self.assertEqual((p["messages"], p["bytes"], p["scratch_bytes"]), (0, 0, 0))
        self.assertEqual((p["levels"], p["nics"], p["phases"], p["steps"]), ([], [], [], [[]] * 4))
        self.assertIsNone(p["defects"])
        shared = p["shared_memory"]
        self.assertEqual((shared["blocks"], shared["bytes"]), (12, 12 << 10))
        self.assertEqual(shared["busiest"], {"blocks": 3, "bytes": 3 << 10})
        self.assertGreater(p["seconds"], 0)
        self.assertNotIn("shared_memory", plan("--topology", "1x4", "--plan", "linear"))

    def test_levels_say_what_crosses_sockets(self) -> None:
        levels = plan("--topology", "cpu-2socket", "--ranks", "56", "--bytes", "1K")["shared_memory"]["levels"]
        self.assertEqual([(level["name"], level["blocks"]) for level in levels], [("socket", 2 * 28 * 27), ("world", 2 * 28 * 28)])

    def test_text(self) -> None:
        text = run("--topology", "1x4", "--bytes", "1K", "--verify", "--steps").stdout
        self.assertIn("messages   none: ranks show their blocks in memory that all share", text)
        self.assertIn("copies     12 blocks, 12 KiB; on the busiest rank 3 blocks, 3 KiB", text)
        self.assertIn("not verified: there are no messages to replay", text)
        self.assertIn("rank 3: no steps; shows 3 blocks, 3 KiB to others, copies 3 blocks, 3 KiB of theirs", text)
        for word in ("linear", "verified: every", "send to", "phase"):
            self.assertNotIn(word, text.split("plan  ", 1)[1])

    def test_blocks_of_different_sizes(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("9 1K 7\n2 0 0\n3 0 5\n")
            file.flush()
            shared = plan("--topology", "1x3", "--plan", "memory", "--counts", file.name)["shared_memory"]
        self.assertEqual((shared["blocks"], shared["bytes"]), (4, 1024 + 7 + 2 + 3))
        self.assertEqual(shared["busiest"], {"blocks": 2, "bytes": 1024})

    def test_picture(self) -> None:
        svg = xml.etree.ElementTree.fromstring(run("--topology", "1x4", "--svg").stdout)
        space = "{http://www.w3.org/2000/svg}"
        words = [t.text for t in svg.iter(space + "text")]
        self.assertTrue(any("No messages" in w for w in words), words)
        self.assertIn("shared memory", words)
        arrows = [a for a in svg.iter(space + "path") if a.find(space + "title") is not None]
        self.assertEqual(len(arrows), 12)
        self.assertTrue(all(a.get("stroke-dasharray") for a in arrows))

    def test_comparison(self) -> None:
        rows = plan("--topology", "1x4", "--compare")["compare"]
        memory = next(row for row in rows if row["choice"] == "memory")
        self.assertIsNone(memory["replayed_seconds"])
        self.assertEqual((memory["messages"], memory["bytes"], memory["most_sends"]), (0, 0, 0))
        self.assertRegex(run("--topology", "1x4", "--compare").stdout, r"\nmemory +[0-9.]+ [a-z]+ +- +0 +0 ")

    def test_not_across_nodes(self) -> None:
        result = run("--topology", "2x2", "--plan", "memory")
        self.assertEqual(result.stderr, "tapa-plan: memory is shared by ranks of one node, the topology has 2\n")
        self.assertEqual(result.returncode, 2)


class BadInput(unittest.TestCase):
    TABLE = [
        ([], "--topology is required"),
        (["--topology", "2x2", "--bogus"], "The following argument was not expected: --bogus"),
        (["--topology", "2x2", "stray"], "The following argument was not expected: stray"),
        (["--topology", "2x2", "--rank", "x"], "Could not convert: --rank = x"),
        (
            ["--topology", "2x0"],
            '--topology 2x0: factor "0", expected an integer from 1 to 1048576 (for example 2x2x3: groups, slow to fast)',
        ),
        (
            ["--topology", "./no.json"],
            "--topology ./no.json: ./no.json: cannot be read: No such file or directory, expected a topology file",
        ),
        (["--topology", "2x2", "--ranks", "5"], "--topology 2x2: has 4 ranks, but --ranks is 5"),
        (["--topology", "2x2", "--ranks", "-3"], "--ranks is -3, expected at least 1"),
        (["--topology", "3000"], "--topology 3000: has 3000 ranks, expected at most 2048: the steps of every rank are made"),
        (["--topology", "1048576x1"], "--topology 1048576x1: has 1048576 ranks, expected at most 2048: the steps of every rank are made"),
        (["--topology", "2x2", "--placement", "x"], '--placement is "x", expected block or round-robin'),
        (["--topology", "2x2", "--bytes", "12q"], f'--bytes is "12q", {SIZE}'),
        (["--topology", "2x2", "--bytes", "-1"], f'--bytes is "-1", {SIZE}'),
        (["--topology", "2x2", "--bytes", "1,,2"], f'--bytes is "", {SIZE}'),
        (["--topology", "2x2", "--bytes", "1025G"], f'--bytes is "1025G", {SIZE}'),
        (["--topology", "2x2", "--rank", "4"], "--rank is 4, expected 0 to 3"),
        (["--topology", "2x2", "--plan", "mpi"], "mpi has no plan: the call is left to MPI"),
        (
            ["--topology", "2x2", "--plan", "ring"],
            'plan "ring": algorithm "ring" is unknown, expected mpi, memory, linear, pairwise, bruck, tapa or leaders',
        ),
        (["--topology", "2x2", "--split", "socket"], "split level socket is unknown, expected one of node, world"),
        (["--topology", "2x2", "--radix", "1"], f'plan "bruck:radix=1": radix is "1", {WHOLE}2 to 65536'),
        (
            ["--topology", "2x2", "--plan", "linear", "--split", "node"],
            "--plan is the whole choice, expected no --algorithm, --split or other setting with it",
        ),
        (
            ["--topology", "2x2", "--split", "node", "--radix", "2", "--slow", "pairwise"],
            "--radix and --slow both say how groups exchange, expected one",
        ),
        (
            ["--topology", "2x2", "--counts", "/nonexistent"],
            "--counts /nonexistent: cannot be read: No such file or directory, expected a line of numbers for each rank",
        ),
        (["--topology", "2x2", "--svg", "--bytes", "1,2"], "--svg shows one size, expected one in --bytes"),
        (["--topology", "2x2", "--svg", "--compare"], "--svg shows one plan, expected no --compare"),
        (["--topology", "2x2", "--svg", "/nonexistent/x"], "--svg /nonexistent/x: cannot be written: No such file or directory"),
    ]

    def test_table(self) -> None:
        for arguments, message in self.TABLE:
            with self.subTest(arguments=arguments):
                result = run(*arguments)
                self.assertEqual(result.stderr, f"tapa-plan: {message}\n")
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")

    def test_counts_files(self) -> None:
        for text, message in [
            ("1 2\n3\n", "FILE, line 2: 1 numbers, expected one for each of the 2 ranks"),
            ("1 2\n", "FILE: 1 rows, expected one for each of the 2 ranks"),
            ("1 2\n3 4\n5 6\n", "FILE, line 3: a row too many, expected 2"),
            ("1 x\n3 4\n", f'FILE, line 1: "x", {SIZE}'),
            ("", "FILE: 0 rows, expected one for each of the 2 ranks"),
        ]:
            with self.subTest(text=text), tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                result = run("--topology", "2", "--counts", file.name)
                self.assertEqual(result.stderr, "tapa-plan: --counts " + message.replace("FILE", file.name) + "\n")
                self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
