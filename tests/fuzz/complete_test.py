#!/usr/bin/env python3
"""Every function of dit.h is called by the fuzzer of the C interface. Usage: complete_test.py DIT_H SOURCE..."""

import re
import sys
from pathlib import Path


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", " ", text, flags=re.DOTALL)


def declared(header: str) -> set[str]:
    """Names behind DIT_API, but for where it is defined."""
    text = re.sub(r"^ *#.*$", "", without_comments(header), flags=re.MULTILINE)
    return set(re.findall(r"\bDIT_API\b[^;{]*?\b(dit_\w+)\s*\(", text))


def called(sources: list[str]) -> set[str]:
    return {name for source in sources for name in re.findall(r"\b(dit_\w+)\s*\(", without_comments(source))}


def main() -> None:
    header = Path(sys.argv[1]).read_text()
    functions = declared(header)
    lines = sum(line.startswith("DIT_API ") for line in header.splitlines())
    if not functions or len(functions) != lines:
        sys.exit(f"{sys.argv[1]}: {len(functions)} functions found in {lines} lines that begin with DIT_API")
    missing = sorted(functions - called([Path(name).read_text() for name in sys.argv[2:]]))
    if missing:
        sys.exit(f"called by none of {', '.join(Path(name).name for name in sys.argv[2:])}: {', '.join(missing)}")
    print(f"{len(functions)} functions")


main()
