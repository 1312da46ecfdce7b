"""allowance_test.py PRELOAD LAUNCHER PROGRAM: what persistent requests may cost a program that knows nothing of the library.

PROGRAM is regret_calls, on 4 ranks: 300 times it makes a communicator with a persistent request, starts it once and frees both. A
set-up counts as 1 ms at least, and all of them may take a sixtieth of the time that the program lives."""

import os
import re
import subprocess
import sys
import time

PRELOAD, LAUNCHER, PROGRAM = sys.argv[1:]
PATIENCE, LEAST_SECONDS = 60, 1e-3

environment = {**os.environ, "TAPA_CACHE": "0", "TAPA_LOG": "info"}
own = ["env", f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{PRELOAD}"]
began = time.monotonic()
done = subprocess.run(
    [*LAUNCHER.split(), "4", *own, PROGRAM, "persistent", "16", "1", "300"], env=environment, capture_output=True, text=True, timeout=100
)
lived = time.monotonic() - began
assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
assert re.search(r"^dup 1\t", done.stdout, re.M), done.stdout
setups = len(re.findall("a communicator was set up in", done.stderr))
most = lived / (PATIENCE * LEAST_SECONDS)
assert setups <= most, f"{setups} set-ups in {lived:.2f} s, expected at most {most:.0f}"
print(f"{setups} set-ups in {lived:.2f} s, at most {most:.0f} were allowed")
