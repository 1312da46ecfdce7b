"""local_version_test.py PROGRAM: the wheel that tools/lib/local_version.py writes is one for installers: names, version, RECORD agree."""

import base64
import csv
import hashlib
import subprocess
import sys
import tempfile
import unittest
import zipfile
from importlib import metadata
from pathlib import Path

PROGRAM = sys.argv.pop(1)
NAMES = ["thing/__init__.py", "thing/libthing.so", "thing-0.1.0.dist-info/METADATA", "thing-0.1.0.dist-info/WHEEL"]


class LocalVersion(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.wheel = self.folder / "thing-0.1.0-py3-none-linux_x86_64.whl"
        with zipfile.ZipFile(self.wheel, "w") as file:
            for name in NAMES:
                file.writestr(name, f"Metadata-Version: 2.1\nName: thing\nVersion: 0.1.0\nKeywords: {name}\n")
            file.writestr("thing-0.1.0.dist-info/RECORD", "")

    def test_the_label_is_part_of_names_and_version(self) -> None:
        done = subprocess.run(
            [sys.executable, PROGRAM, self.wheel, "torch2.15.cpu", self.folder], capture_output=True, text=True, check=True, timeout=60
        )
        result = Path(done.stdout.strip())
        self.assertEqual(result.name, "thing-0.1.0+torch2.15.cpu-py3-none-linux_x86_64.whl")
        there = self.folder / "installed"
        with zipfile.ZipFile(result) as file:
            file.extractall(there)
        found = list(metadata.distributions(path=[str(there)]))
        self.assertEqual([(one.metadata["Name"], one.version) for one in found], [("thing", "0.1.0+torch2.15.cpu")])
        record = {row[0]: row[1:] for row in csv.reader((there / "thing-0.1.0+torch2.15.cpu.dist-info/RECORD").open(encoding="utf-8"))}
        self.assertEqual(set(record), {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()})
        for name, (digest, size) in record.items():
            content = (there / name).read_bytes()
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            self.assertIn((digest, size), [(f"sha256={expected}", str(len(content))), ("", "")])
        self.assertEqual([name for name, (digest, _) in record.items() if not digest], ["thing-0.1.0+torch2.15.cpu.dist-info/RECORD"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
