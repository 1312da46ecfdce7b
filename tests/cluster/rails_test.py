"""The drop-in on two NICs a node that are in networks of their own: ranks keep to one only when the user says so."""

import os
import unittest

import harness

BUILD = os.environ.get("TAPA_BUILD", os.path.join(harness.SOURCE, "build", "release"))
PRELOAD = os.path.join(BUILD, "lib", "libtapa_preload.so")


def rails(*env: str) -> tuple[list[str], str]:
    options = [word for setting in (f"LD_PRELOAD={PRELOAD}", "ASAN_OPTIONS=verify_asan_link_order=0", *env) for word in ("--env", setting)]
    shape = ["--name", harness.NAME, "--nodes", "2", "--nics", "2", "--ranks", "2", "--timeout", "60"]
    done = harness.tool("run", *shape, *options, "--", "cluster_traffic", "1000")
    return sorted(line.split("rails ")[1] for line in done.stdout.splitlines() if "rails " in line), done.stderr


class Rails(unittest.TestCase):
    def test_ranks_are_not_pinned_to_networks_of_their_own(self) -> None:
        found, said = rails("TAPA_LOG=info")
        self.assertEqual(found, ["nic0,nic1 wrong 0"] * 4, said)
        self.assertIn("networks of their own (nic0 10.99.0.0/24,nic1 10.99.1.0/24)", said)

    def test_unless_asked_for(self) -> None:
        found, said = rails("TAPA_NICS=each")
        self.assertEqual(found, ["nic0 wrong 0"] * 2 + ["nic1 wrong 0"] * 2, said)


if __name__ == "__main__":
    harness.main()
