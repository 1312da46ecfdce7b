"""bench/slow-links on runs whose figures are known."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from collections.abc import Iterable
from typing import Any

PROGRAM = os.path.abspath(sys.argv.pop(1))


def row(name: str, ms: float, slow: float, reused: int = 0, psnr: Iterable[float | str | None] = ()) -> dict[str, Any]:
    judged = [
        {"seed": i, "class": i, "psnr_db": value if isinstance(value, int) else None, "equal": value is None, "ssim": 1}
        for i, value in enumerate(psnr)
    ]
    return {"name": name, "step_ms": ms, "bytes_slow": slow, "reused_steps": reused, "judged": judged}


def run(steps: int, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"model": {"height": 64, "width_pixels": 64, "steps": steps, "guidance": 2}, "rows": list(rows)}


class SlowLinks(unittest.TestCase):
    def test_table_and_picture(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            names = {
                "a": run(10, row("flat", 100, 8), row("near", 25, 2), row("cache", 100, 8)),
                "b": run(20, row("flat", 100, 8), {**row("near", 10, 1), "step_ms_low": 8, "step_ms_high": 12.5}),
                "q": run(10, row("near", 1, 1, psnr=(50, 30)), row("cache", 1, 1, reused=5, psnr=(20, 25))),
                "more": run(20, row("flat", 50, 8), row("cache", 25, 4)),
                "r": run(10, row("near", 1, 1, psnr=(40,)), row("exact", 1, 1, psnr=(None,))),
                "nan": run(20, row("near", 1, 1, psnr=(40, 45, "not finite"))),
            }
            for name, content in names.items():
                pathlib.Path(folder, name).write_text(json.dumps(content))
            result = subprocess.run(
                [sys.executable, PROGRAM, "--speed", "a,b,more", "--quality", "q,r,nan", "--plot", "p.svg"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            lines = result.stdout.splitlines()
            self.assertEqual(lines[0], "| row | bytes | 64x64, 10 steps | 64x64, 20 steps | mean | peak |")
            self.assertEqual(lines[2], "| `flat` | 1.000 | 1.00 | 1.00 | 1.00 | 1.00 |")
            self.assertEqual(lines[3], "| `near` | 0.125-0.250 | 4.00 | 10.00 (8.00-12.50) | 7.00 | 10.00 |")
            self.assertEqual(lines[4], "| `cache` | 0.250-0.500 | 2.00 | 4.00 | 3.00 | 4.00 |")
            self.assertEqual(lines[6:8], ["| row | 64x64, 10 steps | 64x64, 20 steps |", "| --- | --- | --- |"])
            self.assertEqual(lines[8:], ["| `near` | 40.0 / 30.0 (3) | 40.0 / none (3) |", "| `cache` | 22.5 / 20.0 (2) | - |"])
            drawn = xml.etree.ElementTree.parse(pathlib.Path(folder, "p.svg"))
            circles = [circle.get("class") for circle in drawn.findall("{http://www.w3.org/2000/svg}circle")]
            self.assertEqual(sorted(circles), ["all", "all", "one", "one", "one"])


if __name__ == "__main__":
    unittest.main()
