"""What the pages quote is true: imports, Python, options of commands, links, paths, the tree of the architecture."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from cosmic_tta.cli.app import app
from cosmic_tta.evaluation.method_checks import CHECKS
from cosmic_tta.methods import METHODS
from tests.support.paths import ROOT
from tests.support.tiny import image

pytestmark = pytest.mark.pathless
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / ".github").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
REPOSITORY_PATH = re.compile(r"(?<![\w./-])(?:src|tests|tools|docs|benchmarks|examples|kernel|\.github)/[\w./-]*\w/?")
END_OF_COMMAND = {"|", ">", "&", "&&", ";", "#", "\\"}
EXECUTED_ELSEWHERE = ("README.md", "service.md", "tutorial-researcher.md", "tutorial-engineer.md")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[str]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in found if language in languages]


def inline(page: Path) -> list[str]:
    return INLINE.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))


def code_of(page: Path) -> list[str]:
    """Return every piece of code on a page: inline, and the lines of console blocks."""
    lines = [line for text in blocks(page, "console", "bash", "text") for line in text.splitlines()]
    return inline(page) + [line.removeprefix("$ ") for line in lines]


def resolve(name: str) -> None:
    """Import what a dotted name stands for, or raise."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):  # a library of an extra that is not installed
                raise
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_a_page_imports_is_there(page: Path) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("cosmic_tta"):
                for alias in node.names:
                    resolve(f"{node.module}.{alias.name}")
    for name in (word for span in inline(page) for word in re.findall(r"\bcosmic_tta(?:\.\w+)+", span)):
        resolve(name)
    for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        resolve(name)


RUN = [
    pytest.param(code, id=f"{named(page)}-{number}")
    for page in PAGES
    if page.name not in EXECUTED_ELSEWHERE and "results" not in page.parts
    for number, code in enumerate(blocks(page, "python"))
]


@pytest.mark.parametrize("code", RUN)
def test_the_python_of_a_page_runs(code: str, tmp_path: Path) -> None:
    if "cosmic_tta.reporting" in code:
        pytest.importorskip("matplotlib")
        pytest.importorskip("plotly")
    image(1).save(tmp_path / "photo.jpg")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def root_command() -> Any:
    return typer.main.get_command(app)


def options_of(command: Any) -> dict[str, bool]:
    """Return the options of a command, and whether each takes a value."""
    return {
        name: not getattr(option, "is_flag", False)
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("-")
    } | {"--help": False}


def unknown_options(line: str) -> Iterator[str]:
    """Yield what is no command or option of `cosmic` in a line that calls it."""
    for call in re.findall(r"(?:^|\s|/)cosmic((?: +[^\s|;]+)+)", line):
        command, path, skip, seen = root_command(), "cosmic", False, options_of(root_command())
        for word in call.split():
            word = word.strip("[]'\"`…")
            if word in END_OF_COMMAND or word.startswith("#"):
                break
            if skip:
                skip = False
            elif word.startswith("--"):
                name, equals, _ = word.partition("=")
                if name not in seen:
                    yield f"{path} {name}"
                skip = seen.get(name, False) and not equals
            elif hasattr(command, "commands") and word and not word.isupper():
                if word not in command.commands:
                    if command is root_command():
                        yield f"{path} {word}"
                    break
                command, path = command.commands[word], f"{path} {word}"
                seen = options_of(command)


def all_options(command: Any) -> set[str]:
    below = getattr(command, "commands", {}).values()
    return set(options_of(command)).union(*(all_options(one) for one in below))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_and_option_on_a_page_exists(page: Path) -> None:
    lines = [line for line in code_of(page) if re.search(r"(?:^|\s)cosmic [a-z-]", line)]
    assert [wrong for line in lines for wrong in unknown_options(line)] == []
    alone = {span.split()[0].partition("=")[0] for span in inline(page) if span.startswith("--")}
    assert alone - all_options(root_command()) - {"--strict"} == set()


def test_a_wrong_option_would_be_found() -> None:
    assert list(unknown_options("cosmic eval PACK --methods tda --seeds 0,1 | less --raw")) == ["cosmic eval --methods"]
    assert list(unknown_options("cosmic evaluate PACK")) == ["cosmic evaluate"]
    assert list(unknown_options("cosmic datasets check /data --jsn -")) == ["cosmic datasets check --jsn"]
    assert list(unknown_options("cosmic datasets --table  # --not")) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_and_path_on_a_page_exists(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?://|#|mailto:", target):
            assert (page.parent / target.partition("#")[0]).exists(), target
    for name in {path for code in code_of(page) for path in REPOSITORY_PATH.findall(code)}:
        if not re.search(r"your|/my|/a/", name):  # a placeholder: a file that the reader is to write
            assert (ROOT / name).exists(), name


def test_pages_that_the_code_names_exist() -> None:
    for folder in ("src", "tests", "tools", "benchmarks", "examples"):
        for file in (ROOT / folder).rglob("*.py"):
            for name in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text(encoding="utf-8")):
                assert (ROOT / name).exists(), f"{named(file)} names {name}"


def test_every_page_is_in_the_navigation_and_every_method_has_one() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        assert page.relative_to(DOCS).as_posix() in listed
    for name in METHODS:
        text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
        assert len(text.split()) <= 900, name
        for heading in ("Idea", "Model", "Parameters", "Cost", "Limits", "Reference"):
            assert f"\n## {heading}\n" in text, (name, heading)
        assert f"(figures/{name}.svg)" in text
        rows = re.findall(r"^\| (`[^|]+) \|", text.split("## Parameters")[1].split("\n## ")[0], flags=re.MULTILINE)
        parameters = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
        assert parameters <= {field.name for field in fields(METHODS[name])}, name


def test_the_tree_of_the_architecture_is_the_tree_of_the_package() -> None:
    tree = next(text for text in blocks(DOCS / "architecture.md", "text") if text.startswith("src/cosmic_tta/"))
    package = ROOT / "src" / "cosmic_tta"
    top = folder = package
    for line in tree.splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        first, *names = re.split(r"\s{2,}", line.strip())
        if indent == 0 or first.endswith(".py"):
            assert ((package if indent else ROOT) / first).exists(), first
            continue
        if first.endswith("/"):
            folder = (package if indent == 2 else top) / first
            top = folder if indent == 2 else top
            assert folder.is_dir(), first
        else:
            names.insert(0, first)
        for name in (text.rpartition(": ")[2] for text in names):
            if re.fullmatch(r"[a-z_]+", name):
                assert (folder / f"{name}.py").exists(), f"{folder.name}/{name}"


@pytest.mark.parametrize(
    ("page", "module", "shown"),
    [
        ("packs.md", "cosmic_tta.features.pack", "Format {}."),
        ("states.md", "cosmic_tta.sessions.state_file", "format number ({})"),
        ("run-folders.md", "cosmic_tta.evaluation.run_folder", "Format {}."),
        ("sessions.md", "cosmic_tta.sessions.journal.format", "have format {}."),
        ("sessions.md", "cosmic_tta.sessions.session_file", "have format {}."),
    ],
)
def test_a_reference_page_has_the_format_of_the_code(page: str, module: str, shown: str) -> None:
    number = importlib.import_module(module).FORMAT
    assert shown.format(number) in (DOCS / "reference" / page).read_text(encoding="utf-8")


def test_the_routes_on_the_page_are_those_of_the_service(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from cosmic_tta.service.app import make_app
    from cosmic_tta.sessions.store import Store

    page = (DOCS / "reference" / "http-api.md").read_text(encoding="utf-8")
    with Store(tmp_path) as store:
        routes = make_app(store).openapi()["paths"]
    for route in routes:
        last = route.rpartition("{stream}/")[2]
        assert f"`{route}`" in page or f"{route}`" in page or f"`{last}`" in page or f"/{last}`" in page, route
    for route in re.findall(r"(?:GET|POST|DELETE) (/v1/[^`? ]+)`", page.replace("/ID/", "/{stream}/")):
        assert route in routes, route


def test_the_metrics_on_the_page_are_those_of_the_service() -> None:
    pytest.importorskip("prometheus_client")
    from cosmic_tta.service.metrics import Metrics

    page = (DOCS / "guide" / "service.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(cosmic_\w+)` \| (\w+) \|", page, flags=re.MULTILINE)
    text = Metrics().render().decode()
    assert sorted(listed) == sorted(re.findall(r"^# TYPE (cosmic_\w+(?<!_created)) (\w+)$", text, flags=re.MULTILINE))


def test_every_package_is_in_the_tree() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    for init in (ROOT / "src" / "cosmic_tta").rglob("__init__.py"):
        if init.parent != ROOT / "src" / "cosmic_tta":
            assert f"{init.parent.name}/ " in text, init.parent.name


def test_contributing_lists_every_check_of_a_method_and_every_target_of_make() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("The checks of `cosmic check-method`:")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE) == list(CHECKS)
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert targets is not None
    assert set(re.findall(r"^\| `make ([\w-]+)` \|", text, flags=re.MULTILINE)) == set(targets[1].split())
