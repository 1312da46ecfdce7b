"""long_blocks_test.py PRELOAD LAUNCHER PROGRAM: long blocks inside a node go through shared memory from the first call on, where each
rank has a core. PROGRAM is program_long_blocks."""

import os
import re
import subprocess
import sys

PRELOAD, LAUNCHER, PROGRAM = sys.argv[1:]
if len(os.sched_getaffinity(0)) < 2:
    print("it needs two cores")
    sys.exit(77)

environment = {**os.environ, "TAPA_REPORT": "passive"}
own = ["env", f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{PRELOAD}"]
done = subprocess.run([*LAUNCHER.split(), "2", *own, PROGRAM], env=environment, capture_output=True, text=True, timeout=50)
text = done.stdout + done.stderr
assert done.returncode == 0, text


def by_memory(function: str) -> int:
    return sum(int(calls) for calls in re.findall(rf"^ +{function} +131072 +(\d+) .* memory$", text, re.M))


assert by_memory("MPI_Ialltoall") == 20, text
assert by_memory("MPI_Alltoall") >= 5, text
assert "tried in comparison" in text, text
