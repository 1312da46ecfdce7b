"""tapa-sim: results against what the described machine allows, the same twice, and clear errors."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any

PROGRAM = sys.argv.pop(1)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100, check=False)


def rows(*words: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        done = run(*words, "--json", path)
        assert done.returncode == 0, done.stderr
        with open(path, encoding="utf-8") as file:
            return json.load(file)


class Results(unittest.TestCase):
    def test_a_row_has_what_was_asked_for(self) -> None:
        report = rows(
            "cluster16x8",
            "--nodes",
            "2",
            "--per-node",
            "4",
            "--bytes",
            "8,512",
            "--plans",
            "linear",
            "tapa:split=node",
            "--rivals",
            "ompi,ring",
        )
        self.assertEqual((report["machine"], report["ranks"]), ("cluster16x8", 8))
        self.assertEqual([row["bytes"] for row in report["rows"]], [8, 512])
        for row in report["rows"]:
            self.assertLessEqual({"linear", "tapa:split=node", row["choice"]}, set(row["plans"]))
            self.assertEqual(set(row["rivals"]), {"ompi", "ring"})
            self.assertTrue(row["checked"])
            self.assertAlmostEqual(row["regret"], row["plans"][row["choice"]] / min(row["plans"].values()))
            self.assertGreater(row["predicted_us"], 0)

    def test_selectors_have_pairwise_order_for_any_number_of_ranks(self) -> None:
        report = rows(
            "cluster16x8", "--nodes", "3", "--per-node", "1", "--bytes", "64K,512K", "--plans", "linear", "--rivals", "mpich,ring"
        )
        for row in report["rows"]:
            self.assertEqual(row["rivals"]["mpich"], row["rivals"]["ring"])

    def test_same_digits_again(self) -> None:
        words = (
            "fat-tree",
            "--nodes",
            "9",
            "--per-node",
            "2",
            "--placement",
            "unequal",
            "--bytes",
            "64,16K",
            "--plans",
            "tapa:split=node",
            "--rivals",
            "mpich",
        )
        self.assertEqual(rows(*words), rows(*words))

    def test_nics_bound_large_blocks(self) -> None:
        # 4 ranks of a node send 4 blocks of 64 KiB to the other node over 12.5 GB/s.
        report = rows("cluster16x8", "--nodes", "2", "--per-node", "4", "--bytes", "64K", "--plans", "linear", "--rivals", "")
        bound = 16 * 65536 / 12.5e9 * 1e6
        time = report["rows"][0]["plans"]["linear"]
        self.assertGreater(time, bound)
        self.assertLess(time, bound * 1.15)

    def test_an_uplink_that_carries_half_doubles_the_time(self) -> None:
        words = ("--per-node", "1", "--bytes", "256K", "--plans", "linear", "--rivals", "")
        wide = rows("cluster16x8", "--nodes", "16", *words)["rows"][0]["plans"]["linear"]
        narrow = rows("fat-tree", "--nodes", "16", *words)["rows"][0]["plans"]["linear"]
        # 8 nodes send 8 blocks each through their leaf's uplink of 4 NICs, or 15 blocks through their own.
        self.assertAlmostEqual(narrow / wide, 16 / 15, delta=0.05)

    def test_the_way_through_an_uplink_has_all_its_latency(self) -> None:
        words = ("--nodes", "9", "--per-node", "1", "--bytes", "8", "--plans", "bruck", "--rivals", "")
        near = rows("cluster16x8", *words)["rows"][0]["plans"]["bruck"]
        far = rows("fat-tree", *words)["rows"][0]["plans"]["bruck"]
        # The node alone on its leaf waits 1.6 us for a message, where cluster16x8 has 1; in 2 of 4 stages the
        # others are ahead of it.
        self.assertAlmostEqual(far - near, 2 * 0.6, delta=0.1)

    def test_exchanges_too_large_for_memory_have_no_data_and_the_same_time(self) -> None:
        words = (
            "cluster16x8",
            "--nodes",
            "2",
            "--per-node",
            "4",
            "--bytes",
            "4K,64K",
            "--plans",
            "tapa:split=node",
            "--rivals",
            "",
            "--jobs",
            "1",
        )
        full = rows(*words)["rows"]
        empty = rows(*words, "--memory", "0.001")["rows"]
        self.assertEqual([row["checked"] for row in full + empty], [True, True, False, False])
        self.assertEqual([row["plans"] for row in full], [row["plans"] for row in empty])


class Machines(unittest.TestCase):
    """Described in a file: cluster16x8 with something changed."""

    def linear(self, change: Callable[[dict[str, Any]], None], *words: str) -> dict[str, float]:
        shipped = os.path.join(os.path.dirname(PROGRAM), "..", "share", "tapa", "simulated", "cluster16x8.json")
        with open(shipped, encoding="utf-8") as file:
            machine = json.load(file)
        change(machine)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "machine.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(machine, file)
            report = rows(path, "--bytes", "1M", "--plans", "linear", "pairwise", "--rivals", "", *words)
        return report["rows"][0]["plans"]

    def test_incast_makes_bytes_last_longer_where_many_send_to_one(self) -> None:
        def half_as_much_more(machine: dict[str, Any]) -> None:
            machine["messages"]["incast"] = 0.5

        words = ("--nodes", "4", "--per-node", "1")
        without, with_incast = self.linear(lambda _: None, *words), self.linear(half_as_much_more, *words)
        self.assertAlmostEqual(with_incast["linear"] / without["linear"], 1.5, delta=0.02)
        self.assertAlmostEqual(with_incast["pairwise"], without["pairwise"], delta=0.01 * without["pairwise"])

    def test_ranks_spread_messages_over_all_their_rails(self) -> None:
        def two_rails(machine: dict[str, Any]) -> None:
            machine["machine"]["nics"].append({"name": "nic1", "bandwidth": 12.5e9})
            machine["machine"]["rails"] = [[0, 1]] * 8

        words = ("--nodes", "2", "--per-node", "8")
        one, two = self.linear(lambda _: None, *words), self.linear(two_rails, *words)
        self.assertAlmostEqual(one["linear"] / two["linear"], 2, delta=0.1)


class Known(unittest.TestCase):
    WORDS = ("cluster16x8", "--nodes", "2", "--per-node", "4", "--bytes", "8,512", "--plans", "linear", "--rivals", "ring")

    def test_what_a_file_has_is_not_simulated_again(self) -> None:
        report = rows(*self.WORDS)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "known.json")
            report["rows"] = report["rows"][:1]
            report["rows"][0]["plans"] = {"linear": 1234.5, "pairwise": 0.5}
            report["rows"][0]["rivals"]["ring"] = 4321.5
            with open(path, "w", encoding="utf-8") as file:
                json.dump(report, file)
            first, second = rows(*self.WORDS, "--known", path)["rows"]
        self.assertEqual((first["plans"]["linear"], first["rivals"]["ring"]), (1234.5, 4321.5))
        # Plans that only the file has are judged too; what it has not is simulated.
        self.assertEqual(first["best"], "pairwise")
        self.assertGreater(first["predicted"]["pairwise"], 0)
        self.assertAlmostEqual(first["regret"], first["plans"][first["choice"]] / 0.5)
        self.assertNotIn("pairwise", second["plans"])
        self.assertGreater(second["plans"]["linear"], 0)

    def test_a_file_of_something_else_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "known.json")
            self.assertEqual(run(*self.WORDS, "--json", path).returncode, 0)
            for more, said in (
                (("--nodes", "3"), "ranks 8, expected 12"),
                (("--nodes", "2", "--placement", "round-robin"), "placement block, expected round-robin"),
            ):
                words = ("cluster16x8", "--per-node", "4", "--bytes", "8", *more)
                done = run(*words, "--known", path)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"--known {path}: {said}", done.stderr)
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"machine": "cluster16x8"}')
            self.assertIn('key "ranks" is missing', run(*self.WORDS, "--known", path).stderr)
        self.assertIn("cannot be read", run(*self.WORDS, "--known", "/nonexistent.json").stderr)


class Errors(unittest.TestCase):
    def refused(self, *words: str) -> str:
        done = run(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_each_names_the_option(self) -> None:
        self.assertIn('machine "mars" cannot be simulated, expected', self.refused("mars"))
        self.assertIn("--nodes is -1, expected", self.refused("aurora", "--nodes", "-1"))
        self.assertIn("--per-node is 13, expected 1 to 12", self.refused("aurora", "--per-node", "13"))
        self.assertIn("expected at most 8192", self.refused("aurora", "--nodes", "5000"))
        self.assertIn('--placement is "random"', self.refused("aurora", "--placement", "random"))
        self.assertIn("--bytes", self.refused("aurora", "--bytes", "8:4"))
        self.assertIn("expected 1 to", self.refused("aurora", "--bytes", "0"))
        self.assertIn('algorithm "quantum" is unknown', self.refused("aurora", "--plans", "quantum"))
        self.assertIn("split level rock is unknown", self.refused("aurora", "--plans", "tapa:split=rock"))
        self.assertIn('--rivals has "best"', self.refused("aurora", "--rivals", "best"))

    def test_a_signal_leaves_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            words = ["cluster16x8", "--nodes", "8", "--bytes", "8:64K", "--rivals", "", "--jobs", "1"]
            with subprocess.Popen(
                [PROGRAM, *words], env={**os.environ, "TMPDIR": folder}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as program:
                while not os.listdir(folder):
                    time.sleep(0.05)
                time.sleep(0.3)
                program.terminate()
                _, said = program.communicate(timeout=60)
            self.assertEqual(program.returncode, 1)
            self.assertIn("stopped by signal 15", said)
            self.assertEqual(os.listdir(folder), [])

    def test_unwritable_file(self) -> None:
        done = run(
            "cluster16x8",
            "--nodes",
            "2",
            "--per-node",
            "1",
            "--bytes",
            "8",
            "--plans",
            "linear",
            "--rivals",
            "",
            "--json",
            "/nonexistent/x.json",
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("--json /nonexistent/x.json: cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
