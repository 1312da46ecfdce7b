"""tools/cluster run: exit codes, placement, environment, bytes per NIC, over a cluster that runs meanwhile."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import harness

sys.path.insert(0, os.path.join(os.path.dirname(harness.TOOL), "cluster.d"))

import launch

PLACE = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname)"]
TRAFFIC = os.path.join(os.environ.get("TAPA_BUILD", os.path.join(harness.SOURCE, "build", "release")), "bin", "tests", "cluster_traffic")


def run(*arguments: str, name: str = harness.NAME, **more: Any) -> subprocess.CompletedProcess[str]:
    return harness.tool("run", "--name", name, "--timeout", "120", *arguments, **more)


def hosts(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Host of each rank, in the order of ranks."""
    pairs = dict(line.split() for line in done.stdout.splitlines())
    return [pairs[str(rank)] for rank in range(len(pairs))]


class Report(unittest.TestCase):
    def test_full_input_queues_are_told_with_what_helps(self) -> None:
        node = {"host": "nd0", "nics": {}, "retransmitted_segments": 3, "retransmission_timeouts": 1}
        said = launch.traffic_report({"seconds": 1, "nodes": [node], "dropped_packets": 7}).splitlines()[1:]
        self.assertEqual(said[0], "cluster: 3 TCP segments were sent again, 1 of them as a timer ran out")
        self.assertRegex(said[1], "input queues were full and dropped 7 packets: sysctl -w net.core.netdev_max_backlog=")
        node |= {"retransmitted_segments": 0, "retransmission_timeouts": 0}
        self.assertEqual(len(launch.traffic_report({"seconds": 1, "nodes": [node], "dropped_packets": 0}).splitlines()), 1)


class OnOneCluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        done = harness.tool("up", "--name", harness.NAME, "--nodes", "3", "--nics", "2", "--rate", "200mbit,100mbit")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls) -> None:
        harness.tool("down", "--name", harness.NAME)

    def test_exit_code_is_the_programs(self) -> None:
        self.assertEqual(run("--ranks", "1", "--", "true").returncode, 0)
        self.assertEqual(run("--ranks", "1", "--", "sh", "-c", "exit 7").returncode, 7)

    def test_block_and_round_robin_placement(self) -> None:
        self.assertEqual(hosts(run("--ranks", "2", "--", *PLACE)), ["nd0", "nd0", "nd1", "nd1", "nd2", "nd2"])
        dealt = hosts(run("--ranks", "2", "--map", "round-robin", "--", *PLACE))
        self.assertEqual(dealt, ["nd0", "nd1", "nd2", "nd0", "nd1", "nd2"])

    def test_unequal_nodes(self) -> None:
        self.assertEqual(hosts(run("--ranks", "1,3,2", "--", *PLACE)), ["nd0", "nd1", "nd1", "nd1", "nd2", "nd2"])
        dealt = hosts(run("--ranks", "1,3,2", "--map", "round-robin", "--", *PLACE))
        self.assertEqual(dealt, ["nd0", "nd1", "nd2", "nd1", "nd2", "nd1"])
        self.assertEqual(hosts(run("--ranks", "2,0,1", "--", *PLACE)), ["nd0", "nd0", "nd2"])

    def test_nodes_are_apart(self) -> None:
        look = "echo $(hostname) $(ls /sys/class/net | tr '\\n' ' ') procs $(ls -d /proc/[0-9]* | wc -l) shm $(ls /dev/shm | wc -w)"
        for line in run("--ranks", "1", "--", "sh", "-c", look).stdout.splitlines():
            node, *nics, _, processes, _, _ = line.split()
            self.assertRegex(node, r"nd[012]")
            self.assertEqual(nics, ["lo", "mgmt", "nic0", "nic1"])
            self.assertLess(int(processes), 12)

    def test_packets_have_the_size_asked_for(self) -> None:
        look = ["--ranks", "1", "--", "sh", "-c", "cat /sys/class/net/nic1/mtu"]
        self.assertEqual(run(*look).stdout.split(), ["1500"] * 3)
        jumbo = run("--nodes", "2", "--mtu", "9000", *look[:-1], "cat /sys/class/net/nic0/mtu", name=harness.NAME + "-jumbo")
        self.assertEqual(jumbo.stdout.split(), ["9000"] * 2, jumbo.stderr)
        clash = run("--mtu", "9000", "--", "true")
        self.assertIn(f"cluster {harness.NAME} is up with packets of 1500 bytes, not 9000", clash.stderr)
        self.assertEqual(clash.returncode, 125)

    def test_tcp_is_quiet_or_as_linux_has_it(self) -> None:
        read = "echo $(cat /proc/sys/net/ipv4/tcp_recovery)-$(ip route show dev nic0 | grep -c rto_min)"
        look = ["--ranks", "1", "--", "sh", "-c", read]
        self.assertEqual(run(*look).stdout.split(), ["0-1"] * 3)
        linux = run("--nodes", "2", "--tcp", "linux", *look, name=harness.NAME + "-linux")
        self.assertEqual(linux.stdout.split(), ["1-0"] * 2, linux.stderr)
        clash = run("--tcp", "linux", "--", "true")
        self.assertIn(f"cluster {harness.NAME} is up with TCP of the kind quiet, not linux", clash.stderr)
        self.assertEqual(clash.returncode, 125)

    def test_traffic_is_right_and_counted_on_both_nics(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "nic.json")
            done = run("--ranks", "2", "--nic-json", file, "--", "cluster_traffic", "200000")
            with open(file) as opened:
                traffic = json.load(opened)
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = done.stdout.splitlines()
        self.assertEqual(len(ranks), 6)
        for line in ranks:
            self.assertIn("rate nic0=200mbit,nic1=100mbit nics nic0,nic1 rails nic0,nic1 wrong 0", line)
        self.assertEqual([node["host"] for node in traffic["nodes"]], ["nd0", "nd1", "nd2"])
        payload = 2 * 4 * 200000  # two ranks, four remote peers each
        for node in traffic["nodes"]:
            rails = [node["nics"][nic] for nic in ("nic0", "nic1")]
            self.assertEqual([nic["rate"] for nic in rails], ["200mbit", "100mbit"])
            for way in ("tx_bytes", "rx_bytes"):
                self.assertGreater(min(nic[way] for nic in rails), payload / 20, "a NIC was not used")
                self.assertGreater(sum(nic[way] for nic in rails), payload)
                self.assertLess(sum(nic[way] for nic in rails), payload * 1.25)
                self.assertLess(node["nics"]["mgmt"][way], 100000)
        self.assertRegex(done.stderr, r"\Acluster: bytes sent/received in \d+\.\d\d s: nd0 mgmt \d+/\d+ nic0 ")

    def test_segments_that_tcp_sends_again_are_told(self) -> None:
        short = "tc qdisc replace dev nic0 root tbf rate 10mbit burst 1600 limit 20000"  # and drops what waits beyond that
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "nic.json")
            seen = "echo resent $(grep ^Tcp: /proc/net/snmp | tail -n 1 | cut -d ' ' -f 13)"  # by the node itself
            lossy = ["sh", "-c", f'PATH=$PATH:/usr/sbin:/sbin; {short}; "$0" 60000 && {seen}', TRAFFIC]
            done = run("--nodes", "2", "--ranks", "1", "--nic-json", file, "--", *lossy, name=harness.NAME + "-lossy")
            with open(file) as opened:
                nodes = json.load(opened)["nodes"]
        resent, late = (sum(node[key] for node in nodes) for key in ("retransmitted_segments", "retransmission_timeouts"))
        self.assertGreater(resent, 0)
        self.assertGreaterEqual(resent, sum(map(int, re.findall(r"^resent (\d+)$", done.stdout, re.MULTILINE))))
        self.assertIn(f"cluster: {resent} TCP segments were sent again, {late} of them as a timer ran out", done.stderr)

    def test_rate_limits(self) -> None:
        # 2 ranks send 4 x 400 kB to other nodes: 3.2 MB, 85 ms at the 300 Mbit/s of both NICs, 10 ms at 2.4 Gbit/s.
        program = ["cluster_traffic", "400000"]
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "nic.json")
            run("--ranks", "2", "--nic-json", file, "--", *program)
            with open(file) as opened:
                self.assertGreater(json.load(opened)["seconds"], 0.08)

    def test_pinned_ranks_have_one_rail_each(self) -> None:
        done = run("--ranks", "2", "--pin-rails", "--", "cluster_traffic", "1000")
        rails = sorted(line.split("rails ")[1] for line in done.stdout.splitlines())
        self.assertEqual(rails, ["nic0 wrong 0"] * 3 + ["nic1 wrong 0"] * 3)

    def test_environment_and_settings_reach_the_ranks(self) -> None:
        show = ["sh", "-c", 'echo "$A|$B|$OMPI_MCA_btl_tcp_links|$PWD"']
        done = run("--ranks", "1", "--env", "A=1 2", "--env", "B=", "--mca", "btl_tcp_links", "2", "--", *show, cwd="/usr")
        self.assertEqual(done.stdout.splitlines(), ["1 2||2|/usr"] * 3)

    def test_ranks_of_a_node_know_each_other_whatever_the_caller_sets_for_pmix(self) -> None:
        done = run("--ranks", "2", "--", "cluster_traffic", "100", env={"PMIX_MCA_gds": "hash"})
        self.assertEqual([line.split()[5] for line in done.stdout.splitlines()], ["2"] * 6, done.stderr)

    def test_repeat_stops_at_the_first_failure(self) -> None:
        done = run("--ranks", "1,0,0", "--repeat", "3", "--", "echo", "once")
        self.assertEqual(done.stdout, "once\n" * 3)
        done = run("--ranks", "1,0,0", "--repeat", "3", "--", "sh", "-c", "echo once; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, "once\n"))

    def test_time_limit_ends_the_ranks(self) -> None:
        done = harness.tool("run", "--name", harness.NAME, "--ranks", "1", "--timeout", "2", "--", "sleep", f"86400.{os.getpid()}")
        self.assertEqual(done.returncode, 124)
        self.assertIn("cluster: stopped after 2 s\n", done.stderr)
        self.assertEqual(harness.processes(f"sleep 86400.{os.getpid()}"), [])

    def test_a_cluster_of_another_shape_is_refused(self) -> None:
        name = harness.NAME
        for options, is_up in (
            (["--nodes", "4"], "3 nodes, not 4"),
            (["--nics", "1"], "2 NICs per node, not 1"),
            (["--rate", "1gbit"], "NICs of 200mbit,100mbit, not 1gbit"),
            (["--nodes", "2", "--nics", "3"], "3 nodes, not 2 and 2 NICs per node, not 3"),
        ):
            advice = f"take it down (down --name {name}) or use another --name"
            with self.subTest(options=options):
                done = run(*options, "--", "true")
                self.assertEqual((done.returncode, done.stderr), (125, f"cluster: cluster {name} is up with {is_up}: {advice}\n"))

    def test_fitting_shape_and_two_clusters_side_by_side(self) -> None:
        self.assertEqual(run("--nodes", "3", "--rate", "200mbit,100mbit", "--ranks", "1", "--", "true").returncode, 0)
        other = f"{harness.NAME}b"
        self.assertEqual(harness.tool("up", "--name", other, "--nodes", "2").returncode, 0)
        try:
            self.assertEqual(hosts(run("--ranks", "1", "--", *PLACE, name=other)), ["nd0", "nd1"])
            self.assertEqual(hosts(run("--ranks", "1", "--", *PLACE)), ["nd0", "nd1", "nd2"])
        finally:
            harness.tool("down", "--name", other)


if __name__ == "__main__":
    harness.main()
