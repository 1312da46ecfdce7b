"""bench/quality-front on runs whose figures are known."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from collections.abc import Sequence
from typing import Any

PROGRAM = os.path.abspath(sys.argv.pop(1))


def row(name: str, slow: float, psnr: Sequence[float | None], policy: str = "x", first: int = 0) -> dict[str, Any]:
    judged = [
        {"seed": first + i, "class": 0, "psnr_db": value if isinstance(value, int) else None, "equal": value is None}
        for i, value in enumerate(psnr)
    ]
    return {"name": name, "policy": policy, "bytes_slow": slow, "cache_bytes": 2**20 if name == "new" else 0, "judged": judged}


def run(*rows: dict[str, Any], dtype: str = "Float", steps: int = 10) -> dict[str, Any]:
    return {"model": {"height": 64, "steps": steps, "dtype": dtype}, "rows": list(rows)}


def exact(images: int = 3, first: int = 0) -> dict[str, Any]:
    return row("exact", 200, [None] * images, "exact", first)


class QualityFront(unittest.TestCase):
    def front(
        self, files: dict[str, dict[str, Any]], *arguments: str
    ) -> tuple[subprocess.CompletedProcess[str], xml.etree.ElementTree.ElementTree | None]:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                pathlib.Path(folder, name + ".json").write_text(json.dumps(content))
            result = subprocess.run(
                [sys.executable, PROGRAM, folder, *arguments, "--plot", folder + "/p.svg"], capture_output=True, text=True
            )
            plot = pathlib.Path(folder, "p.svg")
            drawn = xml.etree.ElementTree.parse(plot) if plot.exists() else None
            return result, drawn

    def test_what_is_behind_what(self) -> None:
        files = {
            "a": run(exact(), row("new", 20, [50, 40, 60]), row("old", 20, [48, 38, 60]), row("more", 80, [50, 39, 70])),
            "b": run(exact(1, 3), row("new", 20, [45], first=3), row("old", 20, [None], first=3)),
        }
        result, drawn = self.front(files)
        self.assertEqual(
            result.stdout.splitlines(),
            [
                "| 64x64, 10 steps | bytes | median / worst dB (images) | remembered, a rank | behind |",
                "| --- | --- | --- | --- | --- |",
                "| `more` | 0.800 | 50.0 / 39.0 (3) | - | `new` |",
                "| `new` | 0.200 | 47.5 / 40.0 (4) | 1.0 MiB | on the front |",
                "| `old` | 0.200 | 54.0 / 38.0 (4) | - | on the front |",
            ],
        )
        circles = [circle.get("class") for circle in drawn.findall("{http://www.w3.org/2000/svg}circle")]
        self.assertEqual(sorted(circles), ["behind", "front", "front", "worst", "worst", "worst"])

    def test_equal_rows_are_both_on_the_front(self) -> None:
        result, _ = self.front({"a": run(exact(1), row("one", 20, [50]), row("other", 20, [50]))})
        self.assertEqual(result.stdout.count("on the front"), 2)

    def test_as_good_with_clearly_fewer_bytes_is_ahead(self) -> None:
        result, _ = self.front({"a": run(exact(1), row("one", 20, [50]), row("other", 10, [50]))})
        self.assertIn("| `one` | 0.200 | 50.0 / 50.0 (1) | - | `other` |", result.stdout)

    def verdict(self, new: Sequence[float | None], old: Sequence[float | None], slow: float = 20) -> str:
        result, _ = self.front({"a": run(exact(), row("new", slow, new), row("old", 20, old))}, "--versus", "new:old")
        return result.stdout.splitlines()[-1]

    def test_verdict(self) -> None:
        self.assertEqual(
            self.verdict([41, 51, 62], [39, 50, 60]),
            "64x64, 10 steps, 3 images: `new` against `old`: 1.000 of the bytes, median +1.0 dB, worst +2.0 dB: moved",
        )
        for new, old, slow, moved in (
            ([40, 51, 62], [39, 50, 60], 20, False),  # the worst image
            ([41, 50, 62], [39, 50, 60], 20, False),  # the median
            ([41, 51, 62], [39, 50, 60], 21, False),  # bytes
            ([39, 50, 60], [39, 50, 60], 17, True),
            ([39, 50, 60], [39, 50, 60], 18, False),
            ([38, 50, 60], [39, 50, 60], 17, False),
        ):
            self.assertEqual(self.verdict(new, old, slow).endswith(": moved"), moved, (new, old, slow))

    def test_what_cannot_be_judged(self) -> None:
        for files, words in (
            ({"a": run(row("new", 20, [50]))}, "no row, expected an exact row in fp32"),
            ({"a": run(exact(), dtype="BFloat16")}, "BFloat16, expected an exact row in fp32"),
            ({}, "no JSON file there, expected a folder of bench/image-quality"),
        ):
            result, _ = self.front(files)
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
