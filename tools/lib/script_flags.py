"""What all scripts in Python have in common on the command line, as tools/lib/flags.sh has it for those of bash."""

import argparse
import re
import sys
from pathlib import Path


def project_version() -> str:
    text = (Path(__file__).resolve().parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"^project\(tapa VERSION ([0-9.]+)", text, re.MULTILINE)[1]


def parse(parser: argparse.ArgumentParser, words: list[str] | None = None) -> argparse.Namespace:
    """As parser.parse_args, with --version; an option that is not known is named before what is missing."""
    parser.add_argument("--version", action="version", version=f"%(prog)s {project_version()}")
    words = sys.argv[1:] if words is None else words
    known = {name for action in parser._actions for name in action.option_strings}
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("--") and not any(option.startswith(name) for option in known):
            parser.error(f"unknown option {name}; --help names all")
    return parser.parse_args(words)
