"""unit_tests_test.py CTEST BUILD: every case of the programs unit_* is run by some test, as far as they are built."""

import collections
import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

ctest, build = sys.argv[1:]
tests = json.loads(subprocess.run([ctest, "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True).stdout)["tests"]


def cases(program: str) -> set[str]:
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    found, suite = set(), ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  "):
            found.add(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return found


def chosen(every: set[str], text: str) -> set[str]:
    """What GoogleTest runs of them: patterns with * and ?, with a colon between them, behind a minus those to leave out."""
    take, _, leave = text.partition("-")
    wanted, unwanted = ([one for one in part.split(":") if one] for part in (take, leave))
    left = {name for name in every if not any(fnmatchcase(name, one) for one in unwanted)}
    return {name for name in left if not wanted or any(fnmatchcase(name, one) for one in wanted)}


FILTER = "--gtest_filter="
filters = collections.defaultdict(set)
for test in tests:
    program, *flags = test.get("command", [""])
    if Path(program).name.startswith("unit_") and Path(program).exists():
        filters[program] |= {flag.removeprefix(FILTER) for flag in flags if flag.startswith(FILTER)}
count, lost = 0, []
for program, texts in filters.items():
    every = cases(program)
    count += len(every)
    lost += [f"{Path(program).name}: no test runs {name}" for name in sorted(every - set().union(*(chosen(every, text) for text in texts)))]
print("\n".join([*lost, f"{len(filters)} programs, {count} cases"]))
sys.exit(1 if lost or not filters else 0)
