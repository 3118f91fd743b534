"""Both tutorials, executed block by block in one shell, print what they show."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.pathless
GUIDE = ROOT / "docs" / "guide"
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
MARK = "=== block"


class Block(NamedTuple):
    """A fenced block: its language, the file it is to be written to, its text."""

    language: str
    title: str
    text: str


def script(blocks: list[Block]) -> str:
    """Return one shell script of all blocks that run; a mark is printed before each."""
    lines = ["set -eo pipefail"]
    for number, block in enumerate(blocks):
        lines.append(f"echo; echo '{MARK} {number}'")
        if block.title:
            lines.append(f"cat > '{block.title}' <<'END OF FILE'\n{block.text}END OF FILE")
        elif block.language == "python":
            lines.append(f"python - <<'END OF PYTHON'\n{block.text}END OF PYTHON")
        elif block.language in ("console", "bash"):
            lines += [line.removeprefix("$ ") for line in block.text.splitlines()]
    return "\n".join(lines)


def same(shown: str, printed: str) -> bool:
    """Compare two lines word by word; another processor's last bits may turn an image or two."""
    ours, theirs = shown.split(), printed.split()
    return len(ours) == len(theirs) and all(map(alike, ours, theirs))


def alike(shown: str, printed: str) -> bool:
    if shown in ("…", printed):
        return True
    try:
        ours, theirs = float(shown.strip("[],")), float(printed.strip("[],"))
    except ValueError:
        return False
    decimals = len(shown.strip("[],").partition(".")[2])
    return decimals > 0 and abs(ours - theirs) <= (1.5 if decimals <= 2 else 0.05)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_lines_are_compared_word_by_word() -> None:
    assert same("  tda  66.42 ± 0.14  [+1.2,  …", "tda 66.50 ± 0.30 [+1.3, 0.07")
    assert not same("tda 66.42", "tda 70.00")
    assert not same("step 1", "step 2")
    assert not same("drift", "collapse")


@pytest.mark.parametrize("page", ["tutorial-researcher.md", "tutorial-engineer.md"])
def test_a_tutorial_runs_and_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    for module in ("fastapi", "matplotlib", "plotly", "sklearn"):
        pytest.importorskip(module)
    text = (GUIDE / page).read_text(encoding="utf-8").replace("8765", str(free_port()))
    blocks = [Block(*match) for match in FENCE.findall(text)]
    assert len(blocks) > 10
    tools = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "110", "PYTHONUNBUFFERED": "1"}
    out, errors = tmp_path / "printed", tmp_path / "errors"  # files: a server that is left would keep a pipe open
    with out.open("w") as stdout, errors.open("w") as stderr:
        process = subprocess.Popen(
            ["bash", "-c", script(blocks)], cwd=tmp_path, env=environment, stdout=stdout, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(timeout=240)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # servers that a failed tutorial left
    printed = out.read_text(encoding="utf-8")
    assert code == 0, (printed[-2000:], errors.read_text(encoding="utf-8")[-2000:])
    outputs = dict(enumerate(re.split(rf"^{MARK} \d+\n", printed, flags=re.MULTILINE)[1:]))
    for number, block in enumerate(blocks):
        if block.language == "text":
            lines = iter(outputs[number - 1].splitlines())
            for shown in block.text.splitlines():
                assert any(same(shown, line) for line in lines), (shown, outputs[number - 1])
