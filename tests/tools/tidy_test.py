#!/usr/bin/env python3
"""tidy_test.py TIDY CONFIG: tools/tidy looks at what has changed, at nothing else, and says what it leaves out."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TIDY, CONFIG = (Path(word) for word in sys.argv[1:3])
FAULTY = "int one() {\n  int Wrong = 1;\n  return Wrong;\n}\n"
CLEAN = "int one() { return 1; }\n"
HEADER = "inline bool is_null(const char* text) { bool Wrong = text == nullptr; return Wrong; }\n"


class Tidy(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        (self.root / "tools/lib").mkdir(parents=True)
        shutil.copy(TIDY, self.root / "tools/tidy")
        for part in ("progress.py", "script_flags.py"):
            shutil.copy(TIDY.parent / "lib" / part, self.root / "tools/lib")
        shutil.copy(TIDY.parent.parent / "CMakeLists.txt", self.root)
        shutil.copy(CONFIG, self.root / ".clang-tidy")
        (self.root / ".gitignore").write_text("/build/\n")
        for name in ("old", "a", "b"):
            self.write(f"libtapa/{name}.cpp", FAULTY if name == "old" else CLEAN)
        self.git("init", "-q", "-b", "main")
        self.commit()
        self.git("checkout", "-q", "-b", "work")

    def git(self, *words: str) -> None:
        name = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.hooksPath=/dev/null"]
        subprocess.run(["git", "-C", str(self.root), *name, *words], check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "x")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def tidy(self, *words: str, status: int) -> str:
        sources = sorted(self.root.glob("libtapa/*.cpp"))
        entries = [{"directory": str(self.root), "file": str(s), "command": f"c++ -std=c++20 -fno-gnu-unique -c {s}"} for s in sources]
        self.write("build/compile_commands.json", json.dumps(entries))
        done = subprocess.run([str(self.root / "tools/tidy"), "--build", str(self.root / "build"), *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_what_is_as_it_was_is_not_looked_at(self) -> None:
        self.assertIn("no C++ file differs", self.tidy(status=77))
        self.assertIn("libtapa/old.cpp:2:", self.tidy("--all", status=1))

    def test_changes_are_looked_at_committed_or_not(self) -> None:
        self.write("libtapa/a.cpp", CLEAN + "\n")
        self.commit()
        self.assertIn("1 sources, 0 findings", self.tidy(status=0))
        self.write("libtapa/b.cpp", FAULTY)
        said = self.tidy(status=1)
        self.assertRegex(said, r"libtapa/b\.cpp:2:.*\[readability-identifier-naming\]")
        self.assertIn("2 sources, 1 findings", said)
        self.write("libtapa/new.cpp", FAULTY)
        self.assertIn("libtapa/new.cpp:2:", self.tidy(status=1))
        self.commit()
        self.assertIn("no C++ file differs", self.tidy("--since", "HEAD", status=77))

    def test_a_header_is_seen_in_a_source_that_includes_it(self) -> None:
        self.write("libtapa/a.cpp", '#include "part.hpp"\n')
        self.commit()
        self.git("branch", "-f", "main")
        self.write("libtapa/part.hpp", HEADER)
        self.assertRegex(self.tidy(status=1), r"libtapa/part\.hpp:1:.*\[readability-identifier-naming\]")
        self.write("libtapa/lonely.hpp", HEADER)
        self.assertRegex(self.tidy(status=1), r"not looked at.*: libtapa/lonely\.hpp")

    def test_no_more_than_asked_for_and_the_newest_first(self) -> None:
        self.write("libtapa/a.cpp", FAULTY)
        self.commit()
        self.write("libtapa/b.cpp", CLEAN + "\n")
        self.assertIn("more than 1 sources: left out libtapa/a.cpp", self.tidy("--most", "1", status=0))

    def test_it_says_when_it_cannot_know(self) -> None:
        self.tidy("--since", "nowhere", status=2)
        self.git("branch", "-D", "-q", "main")
        self.assertIn("is known", self.tidy(status=77))
        shutil.rmtree(self.root / ".git")
        self.assertIn("no git, or no repository", self.tidy(status=77))


if __name__ == "__main__":
    if not shutil.which("git") or not (shutil.which("clang-tidy-14") or shutil.which("clang-tidy")):
        print("skipped: no git or no clang-tidy")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
