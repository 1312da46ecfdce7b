"""What the tests of tools/cluster share: the tool with a state folder of its own, and a look at what it left behind."""

import os
import subprocess
import sys
import tempfile
import unittest
from typing import Any

SOURCE = os.environ.get("TAPA_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(SOURCE, "tools", "cluster")
STATE = tempfile.TemporaryDirectory(prefix="cluster-test-")
NAME = f"t{os.getpid()}"
ENVIRONMENT = {**os.environ, "XDG_RUNTIME_DIR": STATE.name}


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    """The tool, started."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([TOOL, *arguments], env={**ENVIRONMENT, **more.pop("env", {})}, **{**pipes, **more})


def tool(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """The finished tool: returncode, stdout, stderr."""
    process = start(*arguments, **more)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def tool_with(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tool in an interpreter that has run some code before."""
    script = f"import runpy, sys; {code}; sys.argv = {[TOOL, *arguments]!r}; runpy.run_path({TOOL!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=False)


def processes(text: str, whole: bool = False) -> list[int]:
    """Pids of the processes whose command line contains text, or is text."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/cmdline") as file:
                    line = file.read().replace("\0", " ").rstrip(" ")
                    if line == text if whole else text in line:
                        found.append(int(entry))
            except OSError:
                continue
    return found


def machine() -> tuple[object, ...]:
    """What a cluster must not change: interfaces, named network namespaces, mounts, Open MPI's folders in /tmp."""
    links = sorted(os.listdir("/sys/class/net"))
    named = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=False).stdout
    with open("/proc/self/mounts") as file:
        mounts = [line for line in file if "tapa" in line or STATE.name in line]
    folders = sorted(name for name in os.listdir("/tmp") if name.startswith(("ompi.nd", "ompi.head")))
    return links, named, mounts, folders


def state_left() -> list[str]:
    return os.listdir(STATE.name)


def main(needs_cluster: bool = True) -> None:
    """Runs the tests of the calling file; exit code 77 where a cluster cannot be."""
    if needs_cluster:
        probe = tool("up", "--name", NAME, "--nodes", "1")
        tool("down", "--name", NAME)
        missing = "not found: install" in probe.stderr or "namespaces are not allowed" in probe.stderr
        if probe.returncode == 125 and missing:
            print(f"skipped: {probe.stderr.strip()}")
            sys.exit(77)
    unittest.main(verbosity=2)
