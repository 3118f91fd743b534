"""Find the processes of a cluster that a test started, so that it kills only its own."""

from __future__ import annotations

from pathlib import Path


def descendants(process: int) -> list[int]:
    """Return all processes that a process started, directly or indirectly."""
    children_of: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children_of.setdefault(int(fields[1]), []).append(int(entry.name))
    found, unvisited = [], [process]
    while unvisited:
        children = children_of.get(unvisited.pop(), [])
        found += children
        unvisited += children
    return found


def workers(process: int, task: str = "") -> list[int]:
    """Return the Ray workers among the descendants that run a task or an actor of this name."""
    titles = {number: _title(number) for number in descendants(process)}
    return [number for number, title in titles.items() if title.startswith("ray::") and task in title]


def _title(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
