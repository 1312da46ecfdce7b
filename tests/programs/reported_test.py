"""reported_test.py PRELOAD LAUNCHER PROGRAM: the report begins with what a user wants and counts the program's calls, no others.

PROGRAM is program_reported, on 4 ranks, of which 0 and 2 have something to say."""

import os
import re
import subprocess
import sys

PRELOAD, LAUNCHER, PROGRAM = sys.argv[1:]


def report(value: str) -> str:
    environment = {**os.environ, "TAPA_REPORT": value}
    own = ["env", f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{PRELOAD}"]
    done = subprocess.run([*LAUNCHER.split(), "4", *own, PROGRAM], env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    return done.stderr


def titles(text: str) -> list[str]:
    return re.findall("^tapa report: .*", text, re.M)


for _ in range(5):
    text = report("1")
    assert titles(text) == [
        "tapa report: 33 all-to-alls, as rank 0 of 4 saw them",
        "tapa report: MPI_COMM_WORLD, 4 ranks, as rank 0 saw it",
        "tapa report: ranks 0-1 of MPI_COMM_WORLD, 2 ranks, as rank 0 saw it",
        "tapa report: MPI_COMM_SELF, 1 rank, as rank 0 saw it",
        "tapa report: ranks 2-3 of MPI_COMM_WORLD, 2 ranks, as rank 0 saw it",
    ], text
    assert "3 (communicator of one rank)" in text, text

# As the program runs without a report: MPI runs beside none of the calls.
text = report("passive")
assert "tapa report: 33 all-to-alls, as rank 0 of 4 saw them" in titles(text), text
assert "  taken       30 (90.9 %)" in text, text
assert "forwarded   3 (9.1 %): 3 (communicator of one rank)" in text, text
assert "samples of calls" not in text, text
assert "tapa report: ranks 2-3 of MPI_COMM_WORLD, 2 ranks, as rank 0 saw it" in titles(text), text
