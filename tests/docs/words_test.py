"""words_test.py SOURCE: README.md and docs/ stay short enough to be read."""

import sys
from pathlib import Path

source = Path(sys.argv[1])
long = 0
for most, pages in ((900, [source / "README.md"]), (40_000, sorted((source / "docs").glob("*.md")))):
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    print(f"{len(pages)} pages from {pages[0].relative_to(source)} on: {words:,} words, at most {most:,}")
    long += words > most
sys.exit(1 if long else 0)
