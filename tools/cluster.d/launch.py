"""Finds a program and starts it with mpirun over the nodes of a cluster."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import harmless
import network
import state

PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "mpirun": "openmpi-bin",
    "mpiexec.mpich": "mpich",
}
# TAPA_BUILD is ours, not the library's. With PMIX_MCA_gds=hash, which images made for one machine set, Open MPI 4.1 takes a
# rank of another node for one of its own: ranks of a node use TCP, and MPI_Comm_split_type makes groups that differ.
NOT_HANDED_ON = ("TAPA_BUILD", "PMIX_MCA_gds")
TOOLS = ("ip", "tc", "nsenter")  # what every cluster needs
LAUNCHERS = {"openmpi": ("mpirun.openmpi", "mpirun"), "mpich": ("mpiexec.mpich", "mpiexec.hydra")}

# Time, bytes per NIC, retransmissions per node, packets dropped by the machine.
Reading = tuple[float, dict[tuple[int, str], tuple[int, int]], list[tuple[int, int]], int]


def require(*tools: str) -> None:
    """Fails with the Debian package of the first tool that is missing."""
    for tool in tools:
        if not shutil.which(tool):
            raise state.ClusterError(f"{tool} not found: install the Debian package {PACKAGES[tool]}")


def launcher_program(launcher: str) -> str:
    """The mpirun of an MPI by name."""
    for name in LAUNCHERS[launcher]:
        if shutil.which(name):
            return name
    require("mpirun" if launcher == "openmpi" else "mpiexec.mpich")
    raise AssertionError("unreachable")


def find_program(name: str, builds: list[str]) -> str:
    """A program by path, or by name in the build folders (bin, bin/tests), then in PATH."""
    if "/" in name:
        if os.access(name, os.X_OK) and os.path.isfile(name):
            return os.path.abspath(name)
        raise FileNotFoundError(f"{name} is not an executable file")
    folders = [os.path.join(build, sub) for build in builds for sub in ("bin", "bin/tests")]
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if not found:
        raise FileNotFoundError(f"{name} found neither in {', '.join(folders)} nor in PATH: build it or give its path")
    return os.path.abspath(found)


def slots(ranks: list[int], round_robin: bool) -> list[int]:
    """The nodes in the order in which the ranks take them: [0, 0, 1, 1] or [0, 1, 0, 1] for two nodes of two."""
    if not round_robin:
        return [node for node, count in enumerate(ranks) for _ in range(count)]
    return [node for turn in range(max(ranks)) for node, count in enumerate(ranks) if turn < count]


def _openmpi(cluster: state.Cluster, options: argparse.Namespace, agent: str, nics: list[str]) -> list[str]:
    hosts = ",".join(f"{network.node_name(node)}:{count}" for node, count in enumerate(options.ranks) if count)
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": agent,
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": network.MANAGEMENT,
        "orte_tmpdir_base": "/dev/shm",  # private to a node: nothing is left in /tmp
        # A daemon that detaches gets a scheduling group of its own (sched_autogroup): a rank that yields then yields to
        # its own node only, and a message waits for other nodes' time slices (16 bytes: 6 ms in place of 0.7).
        "orte_leave_session_attached": "1",
        "pml": "ob1",
        "btl": "self,vader,tcp",
        "btl_tcp_if_include": ",".join(nics),
        "mpi_yield_when_idle": "1",
    }
    settings.update(options.mca)
    command = [launcher_program("openmpi"), "--allow-run-as-root", "--bind-to", "none"]
    command += ["--map-by", "node" if options.map == "round-robin" else "slot", "-H", hosts]
    command += ["-np", str(sum(options.ranks))]
    for key, value in settings.items():
        command += ["--mca", key, value]
    for key in options.env:
        command += ["-x", key]
    return command


def _mpich(cluster: state.Cluster, options: argparse.Namespace, agent: str, nics: list[str]) -> list[str]:
    machines = os.path.join(cluster.folder, f"machines.{os.getpid()}")
    with open(machines, "w") as file:
        file.writelines(f"{network.node_name(node)}\n" for node in slots(options.ranks, options.map == "round-robin"))
    command = [launcher_program("mpich"), "-launcher", "ssh", "-launcher-exec", agent, "-localhost", network.HEAD]
    command += ["-f", machines, "-n", str(sum(options.ranks)), "-bind-to", "none"]
    for key, value in {"UCX_NET_DEVICES": ",".join(nics), "MPIR_CVAR_NETWORK_IFACE": nics[0]}.items():
        command += ["-genv", key, value]
    for key, value in options.mca.items():
        command += ["-genv", key, value]
    return command


def command_line(cluster: state.Cluster, options: argparse.Namespace, program: str) -> list[str]:
    """The mpirun command of a run, to be started in the head."""
    agent = os.path.join(os.path.dirname(os.path.realpath(__file__)), "agent")
    nics = [network.rail_name(rail) for rail in range(len(cluster.rates))]
    make = _openmpi if options.launcher == "openmpi" else _mpich
    command = make(cluster, options, agent, nics)
    if options.pin_rails:
        pin = f"nic$((OMPI_COMM_WORLD_LOCAL_RANK % {len(nics)}))"
        command += ["sh", "-c", f'OMPI_MCA_btl_tcp_if_include={pin} exec "$0" "$@"']
    return [*command, program, *options.args]


def environment(cluster: state.Cluster, options: argparse.Namespace) -> dict[str, str]:
    """What every rank finds in its environment, beside the caller's own."""
    rates = cluster.rates
    rate = rates[0] if len(set(rates)) == 1 else ",".join(f"{network.rail_name(rail)}={rate}" for rail, rate in enumerate(rates))
    options.env.setdefault("TAPA_NIC_RATE", rate)
    names = ",".join(network.rail_name(rail) for rail in range(len(rates)))
    options.env.setdefault("TAPA_NICS", names)
    options.env.setdefault("TAPA_SOCKET_IFNAME", f"={names}")
    callers = {name: value for name, value in os.environ.items() if name not in NOT_HANDED_ON}
    return {**callers, **options.env, "CLUSTER_STATE": cluster.folder}


def prefer() -> None:
    """Gives the calling process and its children far more weight than other work on the machine has."""
    if os.path.exists("/proc/self/autogroup"):
        with open("/proc/self/autogroup", "w") as file:
            file.write("-20")
    else:
        os.nice(-20)


def execute(cluster: state.Cluster, command: list[str], env: dict[str, str], options: argparse.Namespace) -> int:
    """Runs a command in the head; its exit code, 128 + n for signal n, 124 when the time is over.

    Whatever ends the wait (Ctrl-C, SIGTERM, the time) ends the job too. The job is a session of its own, which is one
    scheduling group for all nodes.
    """
    inside = cluster.enter("sh", "-c", 'cd "$0" && exec "$@"', os.getcwd(), *command)
    with harmless.Errors() as errors:
        process = subprocess.Popen(inside, env=env, start_new_session=True, stderr=errors, preexec_fn=prefer if options.prefer else None)
        return _wait(cluster, process, options)


def _wait(cluster: state.Cluster, process: subprocess.Popen[bytes], options: argparse.Namespace) -> int:
    try:
        code = process.wait(options.timeout)
        return code if code >= 0 else 128 - code
    except subprocess.TimeoutExpired:
        print(f"cluster: stopped after {options.timeout:g} s", file=sys.stderr)
        return 124
    finally:
        if process.poll() is None:
            _stop(process)
        cluster.kill_strays()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends mpirun, the child of nsenter, politely and then by force."""
    from namespaces import children

    for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        for pid in children(process.pid).values():
            os.kill(pid, number)
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.wait()


def reading(cluster: state.Cluster) -> Reading:
    """What nic_traffic compares: time, bytes per NIC, retransmissions per node, packets dropped by the machine."""
    return time.monotonic(), cluster.counters(), cluster.retransmissions(), network.dropped_packets()


def nic_traffic(cluster: state.Cluster, start: Reading, end: Reading) -> dict[str, Any]:
    """Bytes per node and NIC, and TCP segments sent again, between two readings."""
    (start_time, before, resent_before, dropped_before), (end_time, after, resent_after, dropped_after) = start, end
    rates = {network.rail_name(rail): rate for rail, rate in enumerate(cluster.rates)}
    nodes = []
    for node in range(cluster.nodes):
        nics = {}
        for (owner, nic), (sent, received) in sorted(after.items()):
            if owner == node:
                first = before[owner, nic]
                nics[nic] = {"tx_bytes": sent - first[0], "rx_bytes": received - first[1], "rate": rates.get(nic)}
        resent, late = (now - then for now, then in zip(resent_after[node], resent_before[node], strict=True))
        tcp = {"retransmitted_segments": resent, "retransmission_timeouts": late}
        nodes.append({"host": network.node_name(node), "nics": nics, **tcp})
    seconds, dropped = round(end_time - start_time, 6), dropped_after - dropped_before
    return {"cluster": cluster.name, "seconds": seconds, "nodes": nodes, "dropped_packets": dropped}


def traffic_report(traffic: dict[str, Any]) -> str:
    """Sent/received bytes of every NIC, and whether TCP lost time: nothing is lost here but by queues that overflow."""
    parts = [
        f"{node['host']} " + " ".join(f"{nic} {n['tx_bytes']}/{n['rx_bytes']}" for nic, n in node["nics"].items())
        for node in traffic["nodes"]
    ]
    lines = [f"cluster: bytes sent/received in {traffic['seconds']:.2f} s: " + ", ".join(parts)]
    resent = sum(node["retransmitted_segments"] for node in traffic["nodes"])
    late = sum(node["retransmission_timeouts"] for node in traffic["nodes"])
    if resent:  # packets that overtake each other on many cores cost little; what a timer has to find costs seconds
        lines.append(f"cluster: {resent} TCP segments were sent again, {late} of them as a timer ran out")
    if traffic["dropped_packets"]:
        full = f"cluster: the system's input queues were full and dropped {traffic['dropped_packets']} packets"
        lines.append(f"{full}: sysctl -w net.core.netdev_max_backlog=100000 makes them longer")
    return "\n".join(lines)


def run(cluster: state.Cluster, options: argparse.Namespace, program: str) -> int:
    """Runs the program options.repeat times, stops at the first failure; the exit code."""
    env = environment(cluster, options)
    command = command_line(cluster, options, program)
    runs = []
    code = 0
    cluster.kill_strays()  # of a run whose tool was killed
    for _ in range(options.repeat):
        start = reading(cluster)
        code = execute(cluster, command, env, options)
        runs.append(nic_traffic(cluster, start, reading(cluster)))
        print(traffic_report(runs[-1]), file=sys.stderr)
        if code != 0:
            break
    if options.nic_json:
        with open(options.nic_json, "w") as file:
            json.dump(runs if options.repeat > 1 else runs[0], file, indent=1)
            file.write("\n")
    return code
