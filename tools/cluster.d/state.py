"""What is known of the clusters that are up: one folder per cluster, one process that keeps it alive."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import namespaces
import network


class ClusterError(Exception):
    """The cluster cannot do what was asked; the message says why and what would help."""


def root() -> str:
    """Folder of all clusters of this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return os.path.join(runtime, "tapa-cluster")
    base = "/run" if os.access("/run", os.W_OK) else "/tmp"
    return os.path.join(base, f"tapa-cluster-{os.geteuid()}")


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Holds the lock under which clusters come and go."""
    while True:
        os.makedirs(root(), mode=0o700, exist_ok=True)
        facts = os.lstat(root())
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise ClusterError(f"{root()} is no folder of this user alone: set XDG_RUNTIME_DIR to a folder of your own")
        path = os.path.join(root(), "lock")
        with contextlib.suppress(FileNotFoundError), open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_ino == os.stat(path).st_ino:  # else removed while we waited
                yield
                return


def _tcp_figure(pid: int, file: str, name: str) -> int:
    """A counter of the network namespace of pid: these files have a line of names above each line of figures."""
    with open(f"/proc/{pid}/net/{file}") as lines:
        rows = [line.split() for line in lines]
    found = [row[names.index(name)] for names, row in zip(rows[::2], rows[1::2], strict=False) if name in names]
    return int(found[0])


class Cluster:
    """A cluster that is up. Everything in it lives in the process namespace of one pid, its head."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.name = record["name"]
        self.pid = record["pid"]
        self.started = record["started"]
        self.own_user = record["own_user"]
        self.rates = record["rates"]
        self.mtu = record["mtu"]
        self.tcp = record.get("tcp", "quiet")  # of an older one, too
        self.pids = record["pids"]
        self.folder = os.path.join(root(), self.name)

    @property
    def nodes(self) -> int:
        return len(self.pids)

    def alive(self) -> bool:
        return namespaces.start_time(self.pid) == self.started

    def enter(self, *argv: str) -> list[str]:
        """Command line that runs argv in the head."""
        user = ["-U", "--preserve-credentials"] if self.own_user else []
        return ["nsenter", "-t", str(self.pid), *user, "-m", "-u", "-i", "-n", "-p", "--", *argv]

    def kill_strays(self) -> None:
        """Ends what a run has left behind in the nodes; process 1 of each stays."""
        user = ["-U", "--preserve-credentials"] if self.own_user else []
        for pid in self.pids:
            inside = ["nsenter", "-t", str(pid), *user, "-p", "--", "sh", "-c", "kill -KILL -1"]
            subprocess.run(inside, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def counters(self) -> dict[tuple[int, str], tuple[int, int]]:
        """{(node, NIC): (bytes sent, bytes received)} since the cluster is up."""
        found = {}
        for node, pid in enumerate(self.pids):
            with open(f"/proc/{pid}/net/dev") as file:
                for line in file.readlines()[2:]:
                    name, figures = line.split(":")
                    if name.strip() != "lo":
                        fields = figures.split()
                        found[node, name.strip()] = (int(fields[8]), int(fields[0]))
        return found

    def retransmissions(self) -> list[tuple[int, int]]:
        """(TCP segments sent again, those of them sent because a timer ran out) of each node since the cluster is up."""
        return [(_tcp_figure(pid, "snmp", "RetransSegs"), _tcp_figure(pid, "netstat", "TCPTimeouts")) for pid in self.pids]

    def end(self) -> None:
        """Ends every process of the cluster, which takes its network along, and removes the folder."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            deadline = time.monotonic() + 20
            while self.alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            if self.alive():
                raise ClusterError(f"process {self.pid} of cluster {self.name} does not end")
        shutil.rmtree(self.folder, ignore_errors=True)


def find(name: str) -> Cluster | None:
    """The cluster of that name, None when there is none that is alive."""
    try:
        with open(os.path.join(root(), name, "state.json")) as file:
            cluster = Cluster(json.load(file))
    except (OSError, ValueError, KeyError):
        return None
    return cluster if cluster.alive() else None


def names() -> list[str]:
    """Names of all clusters that have a folder, dead ones included."""
    try:
        return sorted(entry.name for entry in os.scandir(root()) if entry.is_dir())
    except FileNotFoundError:
        return []


def sweep() -> None:
    """Removes what clusters have left whose processes are gone. Call it with the lock held."""
    for name in names():
        if find(name) is None:
            shutil.rmtree(os.path.join(root(), name), ignore_errors=True)


def leave() -> None:
    """Removes the folder of all clusters once the last one is gone. Call it with the lock held."""
    if not names():
        shutil.rmtree(root(), ignore_errors=True)


def create(name: str, nodes: int, rates: list[str], mtu: int, tcp: str, temporary: bool) -> Cluster:
    """Brings a cluster up; call it with the lock held. A temporary one ends with the calling process, however that ends."""
    folder = os.path.join(root(), name)
    os.makedirs(folder, mode=0o755)
    try:
        with open(os.path.join(folder, "hosts"), "w") as file:
            file.write(network.hosts_text(nodes))
        return _create_in(folder, name, nodes, rates, mtu, tcp, temporary)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _create_in(folder: str, name: str, nodes: int, rates: list[str], mtu: int, tcp: str, temporary: bool) -> Cluster:
    own_user = os.geteuid() != 0
    # The head reads "go" from this pipe. A temporary one then goes on reading: it ends when this process does.
    read_end, write_end = os.pipe()
    life = ["cat", "-"] if temporary else ["sleep", "infinity"]
    pid, _ = namespaces.spawn(
        lambda: network.build(folder, nodes, rates, mtu, tcp),
        [shutil.which(life[0]), f"tapa-cluster-{name}", life[1]],
        own_user,
        hold=lambda: os.read(read_end, 2) == b"go",
        stdin=read_end if temporary else None,
        close=[write_end],
    )
    os.close(read_end)
    try:
        seen = namespaces.children(pid)
        heads_view = []
        for node in range(nodes):
            with open(os.path.join(folder, f"{network.node_name(node)}.pid")) as file:
                heads_view.append(int(file.read()))
        record = {"name": name, "pid": pid, "started": namespaces.start_time(pid), "own_user": own_user,
                  "rates": rates, "mtu": mtu, "tcp": tcp, "pids": [seen[inner] for inner in heads_view]}  # fmt: skip
        with open(os.path.join(folder, "state.json"), "w") as file:
            json.dump(record, file)
        os.write(write_end, b"go")
    except BaseException:
        os.close(write_end)
        raise
    if not temporary:
        os.close(write_end)
    return Cluster(record)
