"""waiting_test.py PRELOAD LAUNCHER PROGRAM: the report says who is late, how long the others wait, which order of the ranks is better.

PROGRAM is program_waiting, with PRELOAD "linked" program_waiting_linked. Its ranks may outnumber the cores, so times have wide
bounds: a late rank is 20 ms late."""

import json
import os
import re
import subprocess
import sys
import tempfile

PRELOAD, LAUNCHER, PROGRAM = sys.argv[1:]
LINKED = PRELOAD == "linked"
CALLS, BLOCK = 40, 65536
NODES = {"in turn": [[0, 2], [1, 3]], "consecutive": [[0, 1], [2, 3]]}


def report(mode: str, value: str = "passive", **options: str) -> str:
    environment = {**os.environ, "TAPA_REPORT": value, **options}
    preload = "" if LINKED else PRELOAD
    own = ["env", f"LD_PRELOAD={os.environ.get('SANITIZER_PRELOAD', '')}{preload}"]
    done = subprocess.run([*LAUNCHER.split(), "4", *own, PROGRAM, mode], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    return done.stderr


def topology(nodes: str, folder: str) -> str:
    path = os.path.join(folder, nodes.replace(" ", "-") + ".json")
    levels = [{"name": "node", "groups": NODES[nodes]}, {"name": "world"}]
    nics = [{"name": f"nic{node}", "node": node} for node in range(2)]
    machine = {"schema": "tapa-topology/1", "kind": "ranks", "name": "emulated", "ranks": 4}
    with open(path, "w") as file:
        json.dump({**machine, "levels": levels, "nic_level": "world", "nics": nics}, file)
    return path


def share(text: str) -> tuple[float, float, int]:
    found = re.search(r"^  waiting     for late ranks (\d+) % of the time in blocking calls, transfer (\d+) %, by (\d+) calls", text, re.M)
    assert found, text
    return float(found[1]), float(found[2]), int(found[3])


def late(text: str) -> list[list[str]]:
    return [
        list(found)
        for found in re.findall(r"^  late        rank (\d+) was the last in (\d+) of (\d+) calls .*, ([0-9.e+]+) ms behind", text, re.M)
    ]


for mode, options in [
    ("late", {}),
    ("late-v", {}),
    ("late", {"TAPA_PLAN": "mpi"}),
    ("late-v", {"TAPA_PLAN": "linear", "TAPA_TOPOLOGY": "2x2"}),
]:
    text = report(mode, **options)
    waiting, transfer, calls = share(text)
    assert waiting > 50 and 99 <= waiting + transfer <= 101, text
    assert CALLS - 4 <= calls <= CALLS, text  # MPI's before the set-up, those that failed to be compared
    ((rank, last, of, behind),) = late(text)
    assert rank == "1" and CALLS / 2 < int(last) <= int(of) <= CALLS, text
    assert 15 < float(behind) < 100, text
    assert "rank order" not in text, text

text = report("turns")
assert share(text)[0] > 50 and late(text) == [], text

job = [json.loads(line) for line in report("late", "passive,json").splitlines() if line.startswith("{")]
assert len(job) == 1 and job[0]["format"] == "tapa-report/1", job
waiting = job[0]["job"]["waiting"]
assert [r["rank"] for r in waiting["late"]] == [1] and waiting["waiting"] > waiting["transfer"], job
assert sum(row["calls"] for row in job[0]["rows"] if row["function"].endswith("_Alltoall")) == CALLS, job

ORDER = (
    r"^  rank order  ([0-9.]+) MB into, or out of, the busiest node; ([0-9.]+) MB with (\w+) ranks.*: ([0-9.]+) s less at its NICs\n(.*)"
)

with tempfile.TemporaryDirectory() as folder:
    # A linked program whose ranks never all make a call together does not know them all.
    modes = [("pairs", "in turn"), ("sparse" if LINKED else "pairs-split", "in turn"), ("all", "in turn"), ("pairs", "consecutive")]
    for mode, nodes in modes:
        text = report(mode, TAPA_TOPOLOGY=topology(nodes, folder), TAPA_NIC_RATE="1mbit", TAPA_PLAN="linear")
        found = re.findall(ORDER, text, re.M)
        sent = {level: float(mb) for mb, level in re.findall(r"([0-9.]+) MB by (\w+)", "".join(re.findall("^  sent .*", text, re.M)))}
        far = 8 if mode == "all" else 4 if nodes == "in turn" else 0  # blocks of a call that go to the other node
        near = 12 - far if mode == "all" else 4 - far
        assert sent == {level: round(n * CALLS * BLOCK / 1e6, 3) for level, n in (("node", near), ("world", far)) if n}, text
        if nodes == "consecutive" or mode == "all":
            assert not found, text
            continue
        ((now, then, order, saved, launch),) = found
        assert "mpirun --map-by ppr:2:node" in launch and "mpiexec -ppn 2 " in launch and "srun --ntasks-per-node=2 " in launch, text
        expected = 2 * CALLS * BLOCK  # two ranks of each node send to the other one
        assert order == "consecutive" and float(then) == 0, text
        assert abs(float(now) * 1e6 - expected) < 1000 and abs(float(saved) - expected / 125e3) < 0.01, text
