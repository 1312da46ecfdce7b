#!/usr/bin/env python3
"""docs/dependencies.md names what CMake looks for, what tools/packages.txt installs and what PyPI gives, and nothing else.
Usage: dependencies_test.py PROJECT"""

import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(sys.argv.pop(1))
OURS = {"tapa", "dit"}
CALL = re.compile(
    r"\b(find_package|pkg_check_modules|tapa_optional_module|find_program|find_library|find_path|enable_language)"
    r"\(([^()]*)\)"
)
KEYWORDS = {"NAMES", "QUIET", "REQUIRED", "IMPORTED_TARGET", "GLOBAL"}


def rows() -> Iterator[list[str]]:
    """Cells of the tables."""
    for line in (PROJECT / "docs/dependencies.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) >= 6 and cells[0] != "name":
            yield cells


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def asked_for(call: str, arguments: list[str]) -> list[str]:
    """The names that one call looks for."""
    if call in ("find_package", "enable_language"):
        return arguments[:1]
    if call == "tapa_optional_module":
        return arguments[1:2]
    names = arguments[1:]
    if call == "pkg_check_modules":
        return [name for name in names if name not in KEYWORDS]
    if names[0] == "NAMES":
        ends = [i for i, name in enumerate(names) if i > 0 and name.isupper()]
        return names[1 : min(ends, default=len(names))]
    return names[:1]


def cmake_files() -> Iterator[Path]:
    for pattern in ("CMakeLists.txt", "*.cmake", "*.cmake.in"):
        for path in PROJECT.rglob(pattern):
            if not {"build", ".git"} & set(path.relative_to(PROJECT).parts):
                yield path


def looked_for() -> dict[str, Path]:
    found = {}
    for path in cmake_files():
        text = re.sub(r"#.*", "", path.read_text())
        for call, arguments in CALL.findall(text):
            for name in asked_for(call, arguments.split()):
                found.setdefault(name.strip('"'), path.relative_to(PROJECT))
    # Loops over names, whose calls hold a variable.
    for variable in [name for name in found if name.startswith("${")]:
        path = PROJECT / found.pop(variable)
        loops = re.findall(r"foreach\(" + variable[2:-1] + r" ([^()]*)\)", path.read_text())
        for name in " ".join(loops).split():
            found.setdefault(name, path.relative_to(PROJECT))
    return {name: path for name, path in found.items() if name not in OURS}


def debian_packages() -> set[str]:
    lines = (PROJECT / "tools/packages.txt").read_text().splitlines()
    return {line.split()[1] for line in lines if line.strip() and not line.startswith("#")}


class Dependencies(unittest.TestCase):
    def setUp(self) -> None:
        self.rows = list(rows())
        self.assertGreater(len(self.rows), 30, "no tables in docs/dependencies.md")

    def test_every_line_says_all(self) -> None:
        for cells in self.rows:
            self.assertTrue(
                all(cells[i] for i in (0, 3, 4)) and (cells[6] if len(cells) > 6 else cells[5]),
                f"{cells[0]}: expected a name, versions, a licence and a reason",
            )

    def test_what_cmake_looks_for(self) -> None:
        found, listed = looked_for(), set().union(*(words(cells[1]) for cells in self.rows))
        self.assertEqual({f"{name} ({path})" for name, path in found.items() if name not in listed}, set(), "not in the list")
        self.assertEqual(listed - set(found), set(), "listed, and nobody looks for it")

    def test_what_is_installed_from_debian(self) -> None:
        listed = set().union(*(words(cells[2]) for cells in self.rows if not cells[2].startswith("PyPI")))
        self.assertEqual(listed, debian_packages())

    def test_what_is_installed_from_pypi(self) -> None:
        text = (PROJECT / "plugins/torch/pyproject.toml").read_text()
        wanted = set(re.findall(r'"([a-z][\w-]*)>=', text))
        self.assertEqual(set().union(*(words(cells[2]) for cells in self.rows if cells[2].startswith("PyPI"))), wanted)


if __name__ == "__main__":
    unittest.main()
