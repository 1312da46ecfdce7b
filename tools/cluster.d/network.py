"""Builds the nodes of a cluster and the network between them; runs as process 1 of the cluster's head."""

import os
import shutil
import subprocess

import namespaces

HEAD = "head"
MANAGEMENT = "mgmt"
MANAGEMENT_NET = "10.98.0"
RAIL_NET = "10.99"
HEAD_ADDRESS = 254
LEAST_TIMEOUT = 2  # seconds until TCP sends again what nobody acknowledged


def node_name(node: int) -> str:
    return f"nd{node}"


def rail_name(rail: int) -> str:
    return f"nic{rail}"


def bytes_per_second(rate: str) -> float:
    """The figure of a tc rate like 100mbit (decimal units)."""
    for unit, factor in (("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)):
        if rate.endswith(unit):
            return float(rate[: -len(unit)]) * factor / 8
    raise ValueError(rate)


def hosts_text(nodes: int) -> str:
    """/etc/hosts for the head and every node: names resolve to the management network."""
    lines = ["127.0.0.1 localhost", f"{MANAGEMENT_NET}.{HEAD_ADDRESS} {HEAD}"]
    lines += [f"{MANAGEMENT_NET}.{node + 1} {node_name(node)}" for node in range(nodes)]
    return "\n".join(lines) + "\n"


def _batch(tool: str, lines: list[str], pid: int | None = None) -> None:
    """Feeds lines to `ip` or `tc`, inside the network namespace of pid if given."""
    enter = ["nsenter", "-t", str(pid), "-n"] if pid else []
    done = subprocess.run([*enter, tool, "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True)
    if done.returncode != 0:
        raise namespaces.NamespaceError(f"{tool}: {done.stderr.strip()}")


def _sysctl(name: str, value: str) -> None:
    try:
        with open(f"/proc/sys/net/{name}", "w") as file:
            file.write(value)
    except OSError as error:
        raise namespaces.NamespaceError(f"sysctl net.{name.replace('/', '.')}={value}: {error.strerror}") from error


# What a cluster's TCP can be. quiet: for ranks that share few cores. linux: as Linux has it, for fast links.
TCP = ("quiet", "linux")


def _set_tcp(kind: str) -> None:
    _sysctl("ipv6/conf/all/disable_ipv6", "1")
    _sysctl("ipv6/conf/default/disable_ipv6", "1")
    if kind == "quiet":
        _quiet_tcp()
        return
    # The machine's may be another; not every user may have cubic.
    try:
        _sysctl("ipv4/tcp_congestion_control", "cubic")
    except namespaces.NamespaceError:
        _sysctl("ipv4/tcp_congestion_control", "reno")


def _quiet_tcp() -> None:
    """Keeps TCP's start-up and its reaction to starved processes out of the measurements."""
    _sysctl("ipv4/tcp_slow_start_after_idle", "0")
    _sysctl("ipv4/tcp_no_metrics_save", "1")
    _sysctl("ipv4/tcp_early_retrans", "0")
    _sysctl("ipv4/tcp_congestion_control", "reno")
    # Two cores serve every link, so packets overtake each other, and none is ever lost: no retransmission on suspicion.
    _sysctl("ipv4/tcp_reordering", "127")
    _sysctl("ipv4/tcp_recovery", "0")
    # A window of 64 KiB would wait for acknowledgements that queue behind the peer's own data.
    _sysctl("ipv4/tcp_rmem", "4096 1048576 33554432")
    _sysctl("ipv4/tcp_wmem", "4096 1048576 4194304")


def dropped_packets() -> int:
    """Packets that the machine has dropped because a core's input queue was full (it is one for all namespaces)."""
    with open("/proc/net/softnet_stat") as file:
        return sum(int(line.split()[1], 16) for line in file)


def _shape(device: str, rate: str, mtu: int) -> str:
    """A tbf line that limits what leaves device.

    The burst, 0.4 ms of the rate and three frames at least, makes up for timers that fire late. The peak rate
    keeps it from being a gift to small messages: after a pause they too leave at 1.25 times the rate at most.
    The limit holds what all ranks of a node can have under way at once, so that no queue drops anything.
    """
    speed = bytes_per_second(rate)
    frame = mtu + 33  # and its header, rounded up
    burst = max(3 * frame, int(speed * 400e-6))
    peak = f"peakrate {int(speed * 1.25 * 8)}bit minburst {max(frame + 67, burst // 3)}"
    return f"qdisc replace dev {device} root tbf rate {rate} burst {burst} {peak} limit 1gb"


def _mac(network: int, host: int) -> str:
    return f"02:00:0a:63:{network:02x}:{host:02x}"


def _start_node(name: str, node: int, state: str, tcp: str) -> int:
    def setup() -> None:
        namespaces.become_host(node_name(node), os.path.join(state, "hosts"))
        _set_tcp(tcp)

    pid, _ = namespaces.spawn(setup, [shutil.which("sleep"), f"tapa-cluster-{name}-{node_name(node)}", "infinity"])
    with open(os.path.join(state, f"{node_name(node)}.pid"), "w") as file:
        file.write(f"{pid}\n")
    return pid


def _node_links(node: int, nodes: int, rails: int, mtu: int, tcp: str) -> list[str]:
    """`ip` lines to run inside a node: addresses, neighbours known in advance, with quiet TCP routes with open windows."""
    host = node + 1
    lines = ["link set lo up", f"addr add {MANAGEMENT_NET}.{host}/24 dev {MANAGEMENT}", f"link set {MANAGEMENT} up"]
    for rail in range(rails):
        nic, net = rail_name(rail), f"{RAIL_NET}.{rail}"
        lines += [f"addr add {net}.{host}/24 dev {nic}", f"link set {nic} mtu {mtu} up"]
        if tcp == "quiet":
            lines += [
                f"route replace {net}.0/24 dev {nic} src {net}.{host} proto kernel scope link "
                f"initcwnd 100 initrwnd 100 rto_min {LEAST_TIMEOUT}s"
            ]
        lines += [
            f"neigh replace {net}.{peer + 1} lladdr {_mac(rail, peer + 1)} dev {nic} nud permanent" for peer in range(nodes) if peer != node
        ]
    return lines


def build(state: str, nodes: int, rates: list[str], mtu: int, tcp: str) -> list[int]:
    """Starts the nodes and joins them: a management bridge and one shaped bridge per rail.

    Both ends of every rail link are limited: the node's side is what the NIC can send, the bridge's side what it can
    receive. Returns the nodes' pids as the head sees them.
    """
    namespaces.become_host(HEAD, os.path.join(state, "hosts"))
    _set_tcp(tcp)
    lines = ["link set lo up", f"link add {MANAGEMENT} type bridge", f"link set {MANAGEMENT} up"]
    lines += [f"addr add {MANAGEMENT_NET}.{HEAD_ADDRESS}/24 dev {MANAGEMENT}"]
    for rail in range(len(rates)):
        lines += [f"link add rail{rail} type bridge", f"link set rail{rail} up"]
    name = os.path.basename(state)
    pids = [_start_node(name, node, state, tcp) for node in range(nodes)]
    for node, pid in enumerate(pids):
        lines += [f"link add nd{node}m type veth peer name {MANAGEMENT} netns {pid}"]
        lines += [f"link set nd{node}m master {MANAGEMENT} up"]
        for rail in range(len(rates)):
            port, mac = f"nd{node}r{rail}", _mac(rail, node + 1)
            lines += [f"link add {port} type veth peer name {rail_name(rail)} address {mac} netns {pid}"]
            lines += [f"link set {port} mtu {mtu} master rail{rail} up"]
    _batch("ip", lines)
    for node, pid in enumerate(pids):
        _batch("ip", _node_links(node, nodes, len(rates), mtu, tcp), pid)
        _batch("tc", [_shape(rail_name(rail), rate, mtu) for rail, rate in enumerate(rates)], pid)
    _batch("tc", [_shape(f"nd{node}r{rail}", rate, mtu) for node in range(nodes) for rail, rate in enumerate(rates)])
    return pids
