"""What the tests of dit share: running it, and a small model to run."""
import atexit
import os
import shutil
import struct
import subprocess
import sys
import tempfile

DIT, TINY_MODEL = map(os.path.abspath, sys.argv[1:3])
LAUNCHER = sys.argv[3].split() if len(sys.argv) > 3 else []
del sys.argv[1:]

FOLDER = tempfile.mkdtemp(prefix="dit-test-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
MODEL = os.path.join(FOLDER, "model")
subprocess.run([TINY_MODEL, MODEL], check=True, timeout=60)
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_COMM", "PMI_", "PMIX_"))}
ENVIRONMENT["DIT_THREADS"] = "1"


def path(name):
    return os.path.join(FOLDER, name)


def run(*arguments, ranks=0, timeout=60, **environment):
    """Runs dit, with `ranks` under the MPI launcher."""
    command = [*LAUNCHER, str(ranks), DIT] if ranks else [DIT]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          env={**ENVIRONMENT, **environment}, cwd=FOLDER)


def good(*arguments, **how):
    result = run(*arguments, **how)
    assert result.returncode == 0, f"{arguments}: status {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def field(name):
    """The bytes of the one tensor of a safetensors file."""
    data = read(name)
    return data[8 + struct.unpack("<Q", data[:8])[0]:]
