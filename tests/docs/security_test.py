"""security_test.py SOURCE BUILD: each promise of docs/security.md names tests that hold it, and the build has them."""

import re
import subprocess
import sys
from pathlib import Path

source, build = map(Path, sys.argv[1:])
listed = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
tests = set(re.findall(r"^ *Test +#\d+: (\S+)", listed, re.MULTILINE))
promises = re.split(r"^(?:\* |## .*$)", (source / "docs/security.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
wrong = 0
for promise in filter(str.strip, promises):
    named = re.findall(r"`([a-z][\w.-]*)`", " ".join(re.findall(r"\(([^()]*)\)", promise)))
    unknown = [name for name in named if name not in tests]
    if unknown or not named:
        wrong += 1
        print(f"{' '.join(promise.split())}\n  names {', '.join(unknown) + ', which is no test' if unknown else 'no test'}")
print(f"{len(tests)} tests, {len(promises)} parts of the page, {wrong} without a test")
sys.exit(1 if wrong or not tests else 0)
