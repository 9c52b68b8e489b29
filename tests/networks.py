"""Hosts in network namespaces of their own, joined by a switch, so that a cable can be pulled. Needs root and `ip`."""

import os
import shutil
import subprocess
from pathlib import Path


def possible() -> bool:
    """Whether namespaces can be made here."""
    if os.geteuid() or not shutil.which("ip"):
        return False
    name = f"spicejax{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    return made and subprocess.run(["ip", "netns", "delete", name], capture_output=True).returncode == 0


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """`count` hosts named host0, host1, ...; host k has the address 10.99.0.k+1."""

    def __init__(self, count: int, folder: Path) -> None:
        self._switch = f"spicejax{os.getpid()}{folder.name}"
        self._names = [f"{self._switch}{k}" for k in range(count)]
        self._hosts = folder / "hosts"
        lines = ["127.0.0.1 localhost", *(f"10.99.0.{k + 1} host{k}" for k in range(count))]
        self._hosts.write_text("\n".join(lines) + "\n")

    def __enter__(self) -> "Network":
        for name in (self._switch, *self._names):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch", "up")
        for k, name in enumerate(self._names):
            _ip("-n", self._switch, "link", "add", f"port{k}", "type", "veth", "peer", "name", "cable", "netns", name)
            _ip("-n", self._switch, "link", "set", f"port{k}", "master", "switch", "up")
            _ip("-n", name, "addr", "add", f"10.99.0.{k + 1}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in (self._switch, *self._names):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    def host(self, k: int) -> tuple[str, str, str]:
        """Where `nursery.enter` goes: namespace, table of names, name."""
        return self._names[k], str(self._hosts), f"host{k}"

    def cut(self, k: int) -> None:
        """Pull the cable of a host."""
        _ip("-n", self._switch, "link", "set", f"port{k}", "down")
