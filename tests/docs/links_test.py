"""links_test.py FOLDER: relative links of the Markdown pages below FOLDER lead to files that are there, and parts behind a # to
headings; where FOLDER is the repository, paths in backticks that begin with a folder of it are there, too. Build folders and hidden
ones are left out."""

import os
import re
import sys
from collections.abc import Iterator

LINK = re.compile(r"!?\[[^]\n]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.+-]+(?:/[\w.+-]+)+")
PLACEHOLDER = re.compile(r"[A-Z]+(?:\.\w+)?|\.+")
LEFT_OUT = {"build", "shared"}


def pages(root: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith(".")]
        yield from (os.path.join(folder, name) for name in files if name.endswith(".md"))


def without_code(text: str) -> str:
    """Blocks between fences are not Markdown."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: str) -> set[str]:
    """Of each heading, as GitHub names them."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ +(.+?) *$", without_code(file.read()), flags=re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-") for heading in headings]
    return {name if names[:i].count(name) == 0 else f"{name}-{names[:i].count(name)}" for i, name in enumerate(names)}


def dead_links(page: str) -> Iterator[tuple[str, str]]:
    with open(page, encoding="utf-8") as file:
        text = without_code(file.read())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(file):
            yield target, "no such file"
        elif anchor and file.endswith(".md") and anchor not in anchors(file):
            yield target, f"no such heading; there are {', '.join(sorted(anchors(file)))}"


def named_paths(text: str, folders: set[str]) -> Iterator[str]:
    """Words in backticks that are paths below one of the folders: of a command the program and its files. A word with other signs is
    a pattern, one with a part such as NAME or FILE.json stands for many."""
    for paragraph in re.split(r"\n\s*\n", text):
        for word in " ".join(CODE.findall(paragraph)).split():
            parts = re.sub(r":\d+$", "", word).rstrip("/").split("/")
            if parts[0] in folders and PATH.fullmatch("/".join(parts)) and not any(map(PLACEHOLDER.fullmatch, parts)):
                yield "/".join(parts)


def dead_paths(page: str, root: str, folders: set[str]) -> Iterator[tuple[str, str]]:
    """A path is meant from the root, or from the page's folder."""
    with open(page, encoding="utf-8") as file:
        text = without_code(file.read())
    for path in named_paths(text, folders):
        if not any(os.path.exists(os.path.join(base, path)) for base in (root, os.path.dirname(page))):
            yield path, "no such file or folder"


def main(root: str, least: int) -> int:
    found = sorted(pages(root))
    installed = not os.path.exists(os.path.join(root, "CMakeLists.txt"))  # pages without sources
    folders = set() if installed else {entry.name for entry in os.scandir(root) if entry.is_dir()} - LEFT_OUT
    dead = [(page, *link) for page in found for link in (*dead_links(page), *dead_paths(page, root, folders))]
    for page, target, why in dead:
        print(f"{os.path.relpath(page, root)}: ({target}): {why}")
    print(f"{len(found)} pages, {len(dead)} dead links and paths")
    return 1 if dead or len(found) < least else 0


sys.exit(main(sys.argv[1], 10))
