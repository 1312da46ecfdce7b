"""links_test.py FOLDER: relative links of the Markdown pages below FOLDER lead to files that are there, and parts behind a # to
headings. Build folders and hidden ones are left out."""

import os
import re
import sys
from collections.abc import Iterator

LINK = re.compile(r"!?\[[^]\n]*\]\(([^)\s]+)\)")
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


def main(root: str, least: int) -> int:
    found = sorted(pages(root))
    dead = [(page, *link) for page in found for link in dead_links(page)]
    for page, target, why in dead:
        print(f"{os.path.relpath(page, root)}: ({target}): {why}")
    print(f"{len(found)} pages, {len(dead)} dead links")
    return 1 if dead or len(found) < least else 0


sys.exit(main(sys.argv[1], 10))
