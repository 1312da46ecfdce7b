"""bench/sim/tables: cells, summaries and pictures from files of tapa-sim --json."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from typing import Any

PROGRAM = sys.argv.pop(1)
MARKS = ("<!-- from bench/sim/tables -->", "<!-- end of bench/sim/tables -->")


def row(size: int, choice: str, plans: dict[str, float], rivals: dict[str, float]) -> dict[str, Any]:
    return {
        "bytes": size,
        "plans": plans,
        "rivals": rivals,
        "predicted_us": plans[choice],
        "choice": choice,
        "regret": plans[choice] / min(plans.values()),
        "predicted": plans,
        "checked": size < 4096,
    }


def report(ranks: int, placement: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"machine": "m", "ranks": ranks, "nodes": ranks // 8, "placement": placement, "rows": rows}


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def put(self, *reports: dict[str, Any]) -> None:
        for i, content in enumerate(reports):
            with open(os.path.join(self.folder.name, f"{i}.json"), "w", encoding="utf-8") as file:
                json.dump(content, file)

    def run_it(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, PROGRAM, self.folder.name, *words], capture_output=True, text=True, timeout=100, check=False)

    def test_regret_and_rivals_by_machine_placement_and_size(self) -> None:
        few = report(
            128, "unequal", [row(8, "a", {"a": 12.0, "b": 10.0}, {"ompi": 24.0, "ring": 6.0}), row(4096, "a", {"a": 10.0, "b": 10.5}, {})]
        )
        many = report(1024, "block", [row(8, "b", {"a": 30.0, "b": 10.0}, {"mpich": 80.0}), row(64, "a", {"a": 5.0}, {})])
        self.put(few, many)
        said = self.run_it().stdout
        self.assertIn("| m, 128 | unequal | **1.200** | 1.000 |", said)
        self.assertIn("| m, 128 | unequal | 0.50 |  |", said)
        self.assertIn("| m, 1024 | block | 1.000 |  |", said)  # one plan alone says nothing
        self.assertIn("| m, 1024 | block | 8.00 |  |", said)
        first, second = said.split("### About 1,024 ranks")
        self.assertIn("below 4 KiB take 2.00 times", first)
        self.assertIn("over 1.05 in 1.", first)
        self.assertIn("below 4 KiB take 8.00 times", second)
        self.assertIn("| 8 | `b` | 10.00 | 10.00 | 1.000 (2) | mpich | 80.00 |", second)

    def test_what_stands_between_the_marks_is_replaced(self) -> None:
        self.put(report(128, "block", [row(8, "a", {"a": 10.0, "b": 20.0}, {"ompi": 30.0}), row(64, "a", {"a": 15.0}, {"ompi": 30.0})]))
        with tempfile.TemporaryDirectory() as into:
            path = os.path.join(into, "README.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
            self.assertEqual(self.run_it("--into", into).returncode, 0)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for name in ("speedup.svg", "predicted.svg"):
                self.assertTrue(xml.etree.ElementTree.parse(os.path.join(into, name)).getroot().tag.endswith("svg"))
        self.assertTrue(text.startswith(f"before\n{MARKS[0]}\n\n### 96 to 128 ranks"))
        self.assertTrue(text.endswith(f"{MARKS[1]}\nafter\n"))
        self.assertNotIn("old", text)
        self.assertNotIn("Choices", text)

    def test_nothing_to_show_and_no_marks_are_errors(self) -> None:
        self.assertIn("has no results", self.run_it().stderr)
        self.put(report(128, "block", [row(8, "a", {"a": 10.0}, {"ompi": 30.0})]))
        with tempfile.TemporaryDirectory() as into:
            with open(os.path.join(into, "README.md"), "w", encoding="utf-8") as file:
                file.write("no marks\n")
            self.assertIn(f"has no {MARKS[0]}", self.run_it("--into", into).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
