"""Wrong arguments of tools/cluster: the exact message and exit code of each."""

import os
import subprocess
import tempfile
import unittest

import harness

RANKS = "expected ranks per node, one number or one per node, like 4 or 4,3,5,4"
RATE = "expected a rate of at least 8kbit for all NICs or one per NIC, like 100mbit or 1gbit,100mbit"
NAME = "expected 1 to 31 letters, digits, - or _"

# (arguments, exit code, last line of the error output)
TABLE = [
    ("", 2, "cluster: error: the following arguments are required: up|run|down|status"),
    ("start", 2, "cluster: error: unknown command 'start': expected up, run, down or status"),
    ("up --nodes 0", 2, "cluster up: error: argument --nodes: '0': expected a number from 1 to 200"),
    ("up --nodes 201", 2, "cluster up: error: argument --nodes: '201': expected a number from 1 to 200"),
    ("up --nodes four", 2, "cluster up: error: argument --nodes: 'four': expected a number from 1 to 200"),
    ("up --nodes -3", 2, "cluster up: error: argument --nodes: '-3': expected a number from 1 to 200"),
    ("up --nics 17", 2, "cluster up: error: argument --nics: '17': expected a number from 1 to 16"),
    ("up --rate 100", 2, f"cluster up: error: argument --rate: '100': {RATE}"),
    ("up --rate 100mbit,fast", 2, f"cluster up: error: argument --rate: '100mbit,fast': {RATE}"),
    ("up --rate 0mbit", 2, f"cluster up: error: argument --rate: '0mbit': {RATE}"),
    ("up --rate 7kbit", 2, f"cluster up: error: argument --rate: '7kbit': {RATE}"),
    ("up --nics 3 --rate 1gbit,1mbit", 125, "cluster: --rate gives 2 rates for 3 NICs: give one, or one per NIC"),
    ("up --mtu 100", 2, "cluster up: error: argument --mtu: '100': expected a number from 576 to 65000"),
    ("up --tcp fast", 2, "cluster up: error: argument --tcp: 'fast': expected quiet or linux"),
    ("up --name a/b", 2, f"cluster up: error: argument --name: 'a/b': {NAME}"),
    ("down --name ..", 2, f"cluster down: error: argument --name: '..': {NAME}"),
    ("up --ranks 4", 2, "cluster: error: unrecognized arguments: --ranks 4"),
    ("up -- hostname", 2, "cluster: error: up takes no program"),
    ("run", 2, "cluster run: error: no program given: expected -- PROGRAM [ARGS...] after the options"),
    ("run --", 2, "cluster run: error: no program given: expected -- PROGRAM [ARGS...] after the options"),
    ("run hostname", 2, "cluster: error: unrecognized arguments: hostname"),
    ("run --ranks 0 -- hostname", 2, f"cluster run: error: argument --ranks: '0': {RANKS}"),
    ("run --ranks 4,x -- hostname", 2, f"cluster run: error: argument --ranks: '4,x': {RANKS}"),
    ("run --ranks 4, -- hostname", 2, f"cluster run: error: argument --ranks: '4,': {RANKS}"),
    ("run --nodes 3 --ranks 4,3 -- hostname", 125, "cluster: --ranks gives 2 counts for 3 nodes: give one, or one per node"),
    ("run --map ring -- hostname", 2, "cluster run: error: argument --map: 'ring': expected block or round-robin"),
    ("run --launcher slurm -- hostname", 2, "cluster run: error: argument --launcher: 'slurm': expected openmpi or mpich"),
    ("run --env A -- hostname", 2, "cluster run: error: argument --env: 'A': expected NAME=VALUE"),
    ("run --env 1A=2 -- hostname", 2, "cluster run: error: argument --env: '1A=2': expected NAME=VALUE"),
    ("run --mca btl -- hostname", 2, "cluster run: error: argument --mca: expected 2 arguments"),
    ("run --launcher mpich --mca a b -- hostname", 2, "cluster run: error: --mca works with --launcher openmpi only"),
    ("run --launcher mpich --pin-rails -- hostname", 2, "cluster run: error: --pin-rails works with --launcher openmpi only"),
    ("run --repeat 0 -- hostname", 2, "cluster run: error: argument --repeat: '0': expected a number from 1 to 1000000"),
    ("run --timeout 0 -- hostname", 2, "cluster run: error: argument --timeout: '0': expected seconds above 0"),
    ("run --timeout 1m -- hostname", 2, "cluster run: error: argument --timeout: '1m': expected seconds above 0"),
    ("run --nic-json /nowhere/x.json -- hostname", 2,
     "cluster run: error: --nic-json /nowhere/x.json: its folder is not writable"),
    ("run -- ./no-such-program", 127, "cluster: ./no-such-program is not an executable file"),
    ("run --preset /b -- no-such-program", 127,
     "cluster: no-such-program found neither in /b/bin, /b/bin/tests nor in PATH: build it or give its path"),
]  # fmt: skip


class Arguments(unittest.TestCase):
    def test_every_wrong_argument_is_named(self) -> None:
        for arguments, code, message in TABLE:
            with self.subTest(arguments=arguments):
                done = harness.tool(*arguments.split())
                self.assertEqual(done.stderr.rstrip("\n").split("\n")[-1], message)
                self.assertEqual((done.returncode, done.stdout), (code, ""))

    def test_usage_names_the_program_as_it_was_called(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            installed = os.path.join(folder, "tapa-cluster")
            os.symlink(harness.TOOL, installed)
            for program, words, usage in (
                (harness.TOOL, ["--help"], "usage: cluster "),
                (installed, ["--help"], "usage: tapa-cluster "),
                (installed, ["up", "--help"], "usage: tapa-cluster up "),
                (installed, ["run", "--help"], "usage: tapa-cluster run [options] -- PROGRAM "),
            ):
                with self.subTest(program=program, words=words):
                    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
                    self.assertEqual((done.returncode, done.stdout[: len(usage)]), (0, usage))

    def test_missing_tools_are_named_with_their_package(self) -> None:
        for missing, message in (
            ("ip", "cluster: ip not found: install the Debian package iproute2"),
            ("nsenter", "cluster: nsenter not found: install the Debian package util-linux"),
        ):
            with self.subTest(missing=missing):
                hide = f"import shutil; w = shutil.which; shutil.which = lambda n, **k: None if n == {missing!r} else w(n, **k) or n"
                done = harness.tool_with(hide, "up", "--name", harness.NAME)
                self.assertEqual((done.returncode, done.stderr), (125, message + "\n"))

    def test_status_and_down_without_a_cluster(self) -> None:
        status, down = harness.tool("status"), harness.tool("down")
        self.assertEqual((status.returncode, status.stdout, status.stderr), (0, "no cluster is up\n", ""))
        self.assertEqual((down.returncode, down.stdout, down.stderr), (0, "", ""))

    def test_the_state_lies_in_a_folder_of_the_user_alone(self) -> None:
        with tempfile.TemporaryDirectory() as runtime:
            planted, own = os.path.join(runtime, "tapa-cluster"), os.path.join(runtime, "own")
            os.mkdir(own, 0o700)
            for plant in (lambda: os.symlink(own, planted), lambda: (os.unlink(planted), os.mkdir(planted), os.chmod(planted, 0o777))):
                plant()
                settings = {**os.environ, "XDG_RUNTIME_DIR": runtime}
                done = subprocess.run([harness.TOOL, "down"], env=settings, capture_output=True, text=True, check=False)
                message = f"cluster: {planted} is no folder of this user alone: set XDG_RUNTIME_DIR to a folder of your own\n"
                self.assertEqual((done.returncode, done.stderr), (125, message))
            self.assertEqual(os.listdir(own), [])


if __name__ == "__main__":
    harness.main(needs_cluster=False)
