"""Clusters come and go without a trace: up and down, Ctrl-C, SIGTERM, SIGKILL."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable

import harness


def until(condition: Callable[[], object], seconds: float = 60) -> object:
    """Waits for a condition; its last value."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


class Lifetime(unittest.TestCase):
    def setUp(self) -> None:
        self.before = harness.machine()

    def nothing_left(self, mark: str) -> None:
        self.assertTrue(until(lambda: not harness.processes(mark)), f"left: {harness.processes(mark)}")
        self.assertEqual(harness.machine(), self.before)

    def test_up_status_down(self) -> None:
        mark = f"tapa-cluster-{harness.NAME}"
        up = harness.tool("up", "--name", harness.NAME, "--nodes", "3", "--nics", "2", "--rate", "50mbit")
        self.assertEqual(up.returncode, 0, up.stderr)
        self.assertTrue(until(lambda: len(harness.processes(mark)) == 4), harness.processes(mark))
        status = harness.tool("status")
        self.assertEqual(status.stdout, up.stdout)
        first, *nodes = status.stdout.splitlines()
        self.assertRegex(first, rf"^cluster {harness.NAME}: 3 nodes, head pid \d+, {harness.STATE.name}/tapa-cluster/{harness.NAME}$")
        for number, line in enumerate(nodes):
            address = number + 1
            self.assertRegex(line, rf"^  nd{number} pid \d+  mgmt 10\.98\.0\.{address}  "
                                   rf"nic0 10\.99\.0\.{address} 50mbit nic1 10\.99\.1\.{address} 50mbit$")  # fmt: skip
        again = harness.tool("up", "--name", harness.NAME)
        self.assertEqual(again.stdout, f"cluster {harness.NAME} is up already\n" + up.stdout)
        down = harness.tool("down", "--name", harness.NAME)
        self.assertEqual((down.returncode, down.stdout), (0, f"cluster {harness.NAME} is down\n"))
        self.nothing_left(mark)
        self.assertEqual(harness.state_left(), [])
        self.assertEqual(harness.tool("down", "--name", harness.NAME).stdout, "")

    def running(self, name: str = f"{harness.NAME}-none") -> tuple[subprocess.Popen[str], str]:
        """A run whose ranks sleep, on a temporary cluster unless named: its process, and what marks the ranks."""
        mark = f"{shutil.which('sleep')} 300.{os.getpid()}"
        process = harness.start("run", "--name", name, "--nodes", "2", "--ranks", "2", "--", *mark.split())
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        self.assertTrue(until(lambda: len(harness.processes(mark, whole=True)) == 4), "the ranks did not start")
        return process, mark

    def test_signals_end_a_run_and_its_cluster(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                process, mark = self.running()
                process.send_signal(number)
                self.assertEqual(process.wait(60), 128 + number)
                self.nothing_left(mark)
                self.nothing_left(f"tapa-cluster-run.{process.pid}")
                self.assertEqual(harness.state_left(), [])

    def test_a_killed_tool_takes_its_cluster_along(self) -> None:
        process, mark = self.running()
        process.kill()
        self.nothing_left(mark)
        self.nothing_left(f"tapa-cluster-run.{process.pid}")
        self.assertEqual(harness.tool("down").returncode, 0)
        self.assertEqual(harness.state_left(), [])

    def test_a_tool_killed_in_a_run_on_a_lasting_cluster(self) -> None:
        harness.tool("up", "--name", harness.NAME, "--nodes", "2")
        self.addCleanup(harness.tool, "down", "--name", harness.NAME)
        for clean in (["run", "--name", harness.NAME, "--ranks", "1", "--", "true"], ["down", "--name", harness.NAME]):
            process, mark = self.running(harness.NAME)
            process.kill()
            process.wait()
            self.assertEqual(harness.tool(*clean).returncode, 0)
            self.nothing_left(mark)
        self.nothing_left(f"tapa-cluster-{harness.NAME}")
        self.assertEqual(harness.state_left(), [])

    @unittest.skipUnless(os.geteuid() == 0, "changes to another user")
    def test_without_root(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            shutil.copytree(os.path.dirname(harness.TOOL), f"{folder}/tools")
            os.mkdir(f"{folder}/state")
            os.chown(f"{folder}/state", 65534, 65534)
            done = subprocess.run(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"{folder}/tools/cluster", "run",
                 "--nodes", "2", "--ranks", "1", "--", "hostname"],
                env={**os.environ, "XDG_RUNTIME_DIR": f"{folder}/state", "HOME": folder}, cwd="/",
                capture_output=True, text=True, check=False)  # fmt: skip
            if "namespaces are not allowed" in done.stderr:
                self.skipTest(done.stderr)
            self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["nd0", "nd1"]), done.stderr)
            self.assertEqual(os.listdir(f"{folder}/state"), [])

    def test_a_tool_killed_on_the_way_up_leaves_nothing(self) -> None:
        for delay in (0.05, 0.1, 0.15, 0.2, 0.3):
            process = harness.start("up", "--name", harness.NAME, "--nodes", "12")
            time.sleep(delay)
            process.kill()
            process.communicate()
            harness.tool("down", "--name", harness.NAME)
            self.nothing_left(f"tapa-cluster-{harness.NAME}")
            self.assertEqual(harness.state_left(), [])

    def test_dead_cluster_is_swept_and_pids_of_others_are_safe(self) -> None:
        harness.tool("up", "--name", harness.NAME, "--nodes", "2")
        status = harness.tool("status").stdout
        os.kill(int(re.search(r"head pid (\d+)", status)[1]), signal.SIGKILL)
        mark = f"tapa-cluster-{harness.NAME}"
        self.nothing_left(mark)
        self.assertEqual(harness.tool("status").stdout, "no cluster is up\n")
        # The record now names a process that is not the cluster's: it must survive a down.
        record = os.path.join(harness.STATE.name, "tapa-cluster", harness.NAME, "state.json")
        with open(record) as file:
            text = file.read()
        with open(record, "w") as file:
            file.write(re.sub(r'"pid": \d+', f'"pid": {os.getpid()}', text))
        self.assertEqual(harness.tool("down", "--name", harness.NAME).returncode, 0)
        self.assertEqual(harness.state_left(), [])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's job in the background ignores it, and so would its programs
    harness.main()
