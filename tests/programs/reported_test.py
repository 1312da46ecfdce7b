"""reported_test.py PRELOAD LAUNCHER PROGRAM: the report begins with what a user wants and counts the program's calls, no others.

PROGRAM is program_reported, on 4 ranks, of which 0 and 2 have something to say."""

import os
import re
import subprocess
import sys

PRELOAD, LAUNCHER, PROGRAM = sys.argv[1:]

environment = {**os.environ, "TAPA_CACHE": "0", "TAPA_REPORT": "1"}
own = ["env", f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{PRELOAD}"]
for _ in range(5):
    done = subprocess.run([*LAUNCHER.split(), "4", *own, PROGRAM], env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    titles = re.findall("^tapa report: .*", done.stderr, re.M)
    assert titles == [
        "tapa report: 33 all-to-alls, as rank 0 of 4 saw them",
        "tapa report: MPI_COMM_WORLD, 4 ranks, as rank 0 saw it",
        "tapa report: ranks 0-1 of MPI_COMM_WORLD, 2 ranks, as rank 0 saw it",
        "tapa report: MPI_COMM_SELF, 1 rank, as rank 0 saw it",
        "tapa report: ranks 2-3 of MPI_COMM_WORLD, 2 ranks, as rank 0 saw it",
    ], done.stderr
    assert "3 (communicator of one rank)" in done.stderr, done.stderr
