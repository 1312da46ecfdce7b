"""unit_tests_test.py CTEST BUILD: every case of the programs unit_* is run by some test, as far as they are built."""

import collections
import json
import subprocess
import sys
from pathlib import Path

ctest, build = sys.argv[1:]
tests = json.loads(subprocess.run([ctest, "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True).stdout)["tests"]


def cases(program: str, *flags: str) -> set[str]:
    listed = subprocess.run([program, "--gtest_list_tests", *flags], capture_output=True, text=True, check=True).stdout
    found, suite = set(), ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            found.add(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return found


filters = collections.defaultdict(set)
for test in tests:
    program, *flags = test.get("command", [""])
    if Path(program).name.startswith("unit_") and Path(program).exists():
        filters[program] |= {flag for flag in flags if flag.startswith("--gtest_filter=")}
count, lost = 0, []
for program, flags in filters.items():
    run = set().union(*(cases(program, flag) for flag in flags))
    every = cases(program)
    count += len(every)
    lost += [f"{Path(program).name}: no test runs {name}" for name in sorted(every - run)]
print("\n".join([*lost, f"{len(filters)} programs, {count} cases"]))
sys.exit(1 if lost or not filters else 0)
