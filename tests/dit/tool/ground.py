"""What the tests of dit share: running it, and a small model to run."""

import atexit
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from typing import Any

DIT, TINY_MODEL, MANY_RUNS = map(os.path.abspath, sys.argv[1:4])
LAUNCHER = sys.argv[4].split() if len(sys.argv) > 4 else []
del sys.argv[1:]

FACTOR = float(os.environ.get("TIMEOUT_FACTOR", "1"))  # what is built with a sanitizer takes so much longer
FOLDER = tempfile.mkdtemp(prefix="dit-test-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
MODEL = os.path.join(FOLDER, "model")
subprocess.run([TINY_MODEL, MODEL], check=True, timeout=60)
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_COMM", "PMI_", "PMIX_"))}
ENVIRONMENT["DIT_THREADS"] = "1"
# A library with a thread pool of its own would start it when it is loaded, before any fork.
RUNS = subprocess.Popen(
    [MANY_RUNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"}
)
atexit.register(RUNS.communicate, timeout=60)


def path(name: str) -> str:
    return os.path.join(FOLDER, name)


def run_program(*arguments: object, ranks: int = 0, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Starts the program itself, with `ranks` under the MPI launcher."""
    command = [*LAUNCHER, str(ranks), DIT] if ranks else [DIT]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=timeout * FACTOR, env=ENVIRONMENT, cwd=FOLDER
    )


def run(*arguments: object, ranks: int = 0, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """What the program does with these arguments, without a start of it unless there are `ranks`."""
    if ranks:
        return run_program(*arguments, ranks=ranks, timeout=timeout)
    words = [str(argument) for argument in arguments]
    print(json.dumps({"arguments": words, "folder": FOLDER, "seconds": timeout}), file=RUNS.stdin, flush=True)
    answer = json.loads(RUNS.stdout.readline())
    return subprocess.CompletedProcess(words, answer["status"], answer["stdout"], answer["stderr"])


def good(*arguments: object, **how: Any) -> str:
    result = run(*arguments, **how)
    assert result.returncode == 0, f"{arguments}: status {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def read(name: str) -> bytes:
    with open(path(name), "rb") as file:
        return file.read()


def field(name: str) -> bytes:
    """The bytes of the one tensor of a safetensors file."""
    data = read(name)
    return data[8 + struct.unpack("<Q", data[:8])[0] :]
