"""rooms_test.py SOURCE: docs/architecture.md names every folder of the sources, and in its tables no other ones."""

import os
import re
import sys

ROOT = sys.argv[1]
LEFT_OUT = {"build", "tests", "cmake"}
PRODUCTS = {"Rooms of libtapa": "libtapa/src", "Rooms of libdit": "libdit/src", "Plugins": "."}


def source_folders(top: str) -> set[str]:
    """Below `top`, those with code; relative to the root."""
    found = set()
    for folder, folders, files in os.walk(os.path.join(ROOT, top)):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith((".", "__"))]
        if any(name.endswith((".c", ".cpp", ".cu", ".hpp", ".py")) for name in files):
            found.add(os.path.relpath(folder, ROOT))
    return found


def named_folders(text: str) -> set[str]:
    """In the first columns of the tables, and in the text of their rows."""
    named = set()
    for heading, base in PRODUCTS.items():
        part = text.split(f"## {heading}\n")[1].split("\n## ")[0]
        rows = [row.split("|")[1:3] for row in re.findall(r"^\| `.*$", part, flags=re.MULTILINE)]
        named |= {os.path.normpath(os.path.join(base, name)) for first, _ in rows for name in re.findall(r"`([\w/]+)`", first)}
        mentioned = {os.path.normpath(os.path.join(base, name)) for _, says in rows for name in re.findall(r"`([\w/]+)`", says)}
        named |= {name for name in mentioned if os.path.isdir(os.path.join(ROOT, name))}
    return named


with open(os.path.join(ROOT, "docs/architecture.md"), encoding="utf-8") as file:
    named = named_folders(file.read())
sources = source_folders("libtapa/src") | source_folders("libdit/src") | source_folders("plugins")
unnamed, unknown = sorted(sources - named), sorted(name for name in named if not os.path.isdir(os.path.join(ROOT, name)))
for name in unnamed:
    print(f"{name}: no row of docs/architecture.md names it")
for name in unknown:
    print(f"docs/architecture.md names {name}, which is no folder")
print(f"{len(sources)} folders of sources, {len(unnamed)} not named, {len(unknown)} unknown")
sys.exit(1 if unnamed or unknown or len(sources) < 30 else 0)
