#!/usr/bin/env python3
"""An input that ends a fuzzer's program, in any way, can be had again. Usage: replay_test.py FUZZ_REPLAY_VICTIM"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

VICTIM = sys.argv[1]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        done = subprocess.run(
            [VICTIM, *arguments],
            cwd=folder,
            env={**os.environ, "TMPDIR": temporary},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if (folder / arguments[0]).is_dir():
            assert not os.listdir(temporary), f"left behind: {os.listdir(temporary)}"
    return done


def check_made_input(folder: Path, word: str, words: str) -> None:
    """`word` comes in by the dictionary alone."""
    (folder / "dictionary").write_text(f'"{word}"\n')
    options = ["corpus", "--runs", "200", "--seed", "3", "--limit", "1", "--dictionary", "dictionary"]
    done = run(folder, *options, "--found", f"{word}-")
    assert done.returncode == 1 and words in done.stderr, f"{word}: {done}"
    (found,) = folder.glob(f"{word}-*")
    number = found.name.removeprefix(f"{word}-seed-3-run-")
    assert f"run {number} of seed 3, written to {found.name}" in done.stderr, done.stderr
    assert word.encode() in found.read_bytes()
    written = run(folder, *options, "--write", number, "again")
    assert written.returncode == 0 and (folder / "again").read_bytes() == found.read_bytes(), written
    before = run(folder, *options, "--runs", number)
    assert before.returncode == 0 and f"{number} made from them" in before.stdout, before
    if word == "ABORT":
        assert run(folder, found.name).returncode < 0, "one input alone ends the program, too"


def check_corpus(folder: Path) -> None:
    clean = run(folder, "corpus")
    assert clean.returncode == 0 and clean.stdout == "2 inputs, and 0 made from them with seed 1\n", clean
    runs = ["corpus", "--runs", "500"]
    assert "500 made" in run(folder, *runs).stdout
    assert "0 made" in run(folder, *runs, "--seconds", "0").stdout
    assert run(folder, "corpus/a").stdout == "1 input\n"
    (folder / "bad").mkdir()
    (folder / "bad" / "first").write_text("fine")
    (folder / "bad" / "second").write_text("ABORT")
    bad = run(folder, "bad", "--runs", "5")
    assert bad.returncode == 1 and "1 input" not in bad.stdout and "bad/second" in bad.stderr, bad
    (folder / "empty").mkdir()
    assert run(folder, "empty").returncode == 1, "a corpus that is not there is not a test that passes"


def check_options(folder: Path) -> None:
    (folder / "broken").write_text("no quotes\n")
    for wrong in (["none"], ["corpus", "--runs"], ["corpus", "--runs", "x"], ["corpus", "--what"]):
        assert run(folder, *wrong).returncode == 2, wrong
    assert "line 1" in run(folder, "corpus", "--dictionary", "broken").stderr


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        (folder / "corpus" / "a").write_text("some input")
        (folder / "corpus" / "b").write_text("")
        check_corpus(folder)
        check_options(folder)
        check_made_input(folder, "ABORT", "signal 6")
        check_made_input(folder, "THROW", "signal 6")
        check_made_input(folder, "EXIT", "exit status 0")
        check_made_input(folder, "HANG", "not done after 1 s")


main()
