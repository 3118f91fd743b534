"""A method from outside the repository, by the checklist of CONTRIBUTING.md, through the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest

from cosmic_tta.core.errors import InputError
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.methods import plugins
from tests.support.serving import Running, features, samples, wanted

TOY = """
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta import FeatureMemory, Method, Prediction, State, param, register_method
from cosmic_tta.core.arrays import Array, softmax, take_classes, unit


@dataclass
class ToyState(State):
    sums: Array  # [K, D]


@register_method
@final
@dataclass(frozen=True)
class Toy(Method[ToyState]):
    'Adds the similarity to a running sum per pseudo-label.'

    name: ClassVar[str] = "NAME"

    weight: float = param(0.1, "of the running sums beside the texts", range=(0, 1))

    def _init(self, task):
        return ToyState(task, seen=0, sums=np.zeros((task.classes, task.dim), np.float32))

    def _remap_classes(self, state, task, class_map):
        return ToyState(task, seen=state.seen, sums=take_classes(state.sums, class_map))

    def memories(self, state):
        return (FeatureMemory("sums", unit(state.sums), np.arange(state.task.classes), None, 1),)

    def _predict(self, state, sample, *, learn):
        scale = np.float32(state.task.logit_scale)
        logits = scale * (state.task.unit_text @ sample.plain)
        if learn:
            state.sums[logits.argmax()] += sample.plain
        adapted = logits + scale * np.float32(self.weight) * (unit(state.sums) @ sample.plain)
        return Prediction(softmax(adapted), {"zero_shot": softmax(logits)})
"""
TRAINED = """
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from cosmic_tta import Method, Prediction, State, register_method
from cosmic_tta.core.arrays import softmax
from cosmic_tta.methods import register_objective
from cosmic_tta.methods.components.optim import cross_entropy
from cosmic_tta.methods.components.training import Checkpoint, TrainingDefaults, TrainingObjective


@register_method
@final
@dataclass(frozen=True)
class Linear(Method[State]):
    'A linear classifier that is trained.'

    name: ClassVar[str] = "linear"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint",)
    checkpoint: Checkpoint | None = None

    def _init(self, task):
        return State(task, seen=0)

    def _predict(self, state, sample, *, learn):
        scale = np.float32(state.task.logit_scale)
        zero_shot = softmax(scale * (state.task.unit_text @ sample.plain))
        return Prediction(softmax(scale * (self.checkpoint.arrays["w"] @ sample.plain)), {"zero_shot": zero_shot})


@register_objective
class LinearObjective(TrainingObjective):
    method = "linear"
    defaults = TrainingDefaults(epochs=3, rate=1e-3, batch=16)

    def __init__(self, task, support, options):
        self.task = task

    def init_weights(self, seed):
        return {"w": np.array(self.task.unit_text)}

    def loss(self, weights, features, labels):
        logits = features @ weights["w"].T
        loss, by_logits = cross_entropy(logits, labels)
        return loss, {"w": by_logits.T @ features}, int((logits.argmax(axis=1) == labels).sum())

    def checkpoint(self, weights, metadata):
        return Checkpoint(self.method, dict(weights), dict(metadata))
"""
STATE = """
import sys
from cosmic_tta import make_method
from cosmic_tta.core.state_tree import state_digest
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.sessions.state_file import load, save

pack, method = FeaturePack.open(sys.argv[1]), make_method("toy", weight=0.3)
state = method.init(pack.task())
method.steps(state, [pack.sample(i) for i in range(20)])
save(sys.argv[2], method, state)
assert state_digest(load(sys.argv[2], method, pack.task())) == state_digest(state)
print(state.seen)
"""


def installed(folder: Path, name: str = "toy", code: str = TOY, value: str = "toy_package") -> Path:
    """Write a package with an entry point, as an installer leaves it behind."""
    folder.mkdir(exist_ok=True)
    (folder / "toy_package.py").write_text(code.replace("NAME", name))
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[cosmic_tta.methods]\n{name} = {value}\n")
    return folder


def path_with(folder: Path) -> str:
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def python(*words: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = {"PYTHONPATH": path_with(folder)} if folder else {}
    environment = {**os.environ, "COLUMNS": "200", **paths, **variables}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, check=False)


def cosmic(*words: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "cosmic_tta", *words, folder=folder, **variables)


@pytest.fixture
def stream(tmp_path: Path, pack: FeaturePack) -> str:
    pack.write(tmp_path / "pack")
    return str(tmp_path / "pack")


@pytest.mark.parametrize("value", ["toy_package", "toy_package:Toy"])
def test_an_installed_package_adds_a_method(tmp_path: Path, stream: str, value: str) -> None:
    folder = installed(tmp_path / "site", value=value)
    listed = cosmic("methods", folder=folder)
    assert "toy" in listed.stdout
    assert "Adds the similarity to a running sum" in listed.stdout
    assert listed.stdout.index("zero_shot") < listed.stdout.index("toy")
    checked = cosmic("check-method", "toy", folder=folder)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.count("passed") == 15
    evaluated = cosmic("eval", stream, "--method", "toy,tda", "--set", "weight=0.3", "--json", "-", folder=folder)
    reports = json.loads(evaluated.stdout)
    assert [report["method"] for report in reports] == ["toy", "tda"]
    assert reports[0]["params"] == {"weight": 0.3}


def test_its_state_is_saved_and_it_is_served(tmp_path: Path, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = installed(tmp_path / "site")
    saved = python("-c", STATE, stream, str(tmp_path / "state.safetensors"), folder=folder)
    assert (saved.stdout, saved.stderr) == ("20\n", "")
    pytest.importorskip("fastapi")
    monkeypatch.setenv("PYTHONPATH", path_with(folder))
    with Running(tmp_path / "served") as server:
        server.client()

        def post(route: str, body: dict[str, object]) -> dict[str, object]:
            request = Request(
                f"{server.url}/v1/{route}", json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            answer: dict[str, object] = json.load(urlopen(request))
            return answer

        post("streams", wanted("s", method="toy", params={"weight": 0.2}))
        answer = post("streams/s/predict", {"features": features(samples(3))})
        assert len(answer["predictions"]) == 3  # type: ignore[arg-type]
        assert json.load(urlopen(f"{server.url}/v1/streams/s/memory"))["memories"] == [{"name": "sums", "room": 1}]


@pytest.mark.parametrize("where", ["before", "after", "variable"])
def test_a_single_file_adds_a_method(tmp_path: Path, stream: str, where: str) -> None:
    file = tmp_path / "my method.py"
    file.write_text(TOY.replace("NAME", "toy"))
    words = ("eval", stream, "--method", "toy", "--limit", "5")
    if where == "before":
        done = cosmic("--include", str(file), *words)
    elif where == "after":
        done = cosmic(*words, f"--include={file}")
    else:
        done = cosmic(*words, COSMIC_TTA_INCLUDE=str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert "toy" in done.stdout


def test_a_file_adds_a_method_with_its_training(tmp_path: Path, stream: str, pack: FeaturePack) -> None:
    file, checkpoint = tmp_path / "linear.py", tmp_path / "linear.safetensors"
    file.write_text(TRAINED)
    replace(pack, clip=pack.clip[::-1].copy(), labels=np.asarray(pack.labels)[::-1].copy()).write(tmp_path / "shots")
    trained = cosmic("--include", str(file), "train", "linear", str(tmp_path / "shots"), "--out", str(checkpoint))
    assert trained.returncode == 0, trained.stderr
    words = ("eval", stream, "--method", "linear", "--checkpoint", str(checkpoint), "--limit", "10", "--json", "-")
    evaluated = cosmic("--include", str(file), *words)
    assert [report["method"] for report in json.loads(evaluated.stdout)] == ["linear"], evaluated.stderr
    unknown = cosmic(*words)
    assert (unknown.returncode, "unknown method 'linear'" in unknown.stderr) == (2, True)


def test_worker_processes_see_the_same_files(tmp_path: Path, stream: str) -> None:
    file = tmp_path / "toy.py"
    file.write_text(TOY.replace("NAME", "toy"))
    grid = tmp_path / "grid.toml"
    grid.write_text(f"packs = [{json.dumps(stream)}]\nmethods = ['toy']\nseeds = [0, 1]\nlimit = 10\n")
    done = cosmic("--include", str(file), "sweep", str(grid), "--workers", "2")
    assert (done.returncode, "toy" in done.stdout) == (0, True), done.stderr


def test_a_method_of_a_file_can_be_pickled_for_a_worker(tmp_path: Path) -> None:
    file = tmp_path / "toy.py"
    file.write_text(TOY.replace("NAME", "toy"))
    dump = (
        "import pickle; from cosmic_tta import make_method; print(pickle.dumps(make_method('toy', weight=0.5)).hex())"
    )
    dumped = python("-c", dump, COSMIC_TTA_INCLUDE=str(file))
    load = f"import cosmic_tta, pickle; print(pickle.loads(bytes.fromhex('{dumped.stdout.strip()}')).weight)"
    assert python("-c", load, COSMIC_TTA_INCLUDE=str(file)).stdout == "0.5\n"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import absent_library", "ModuleNotFoundError: No module named 'absent_library'"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (TOY.replace("NAME", "tda"), "the method 'tda' is already registered by cosmic_tta.methods.tda"),
        (TOY.replace("(frozen=True)", ""), "TypeError"),
    ],
)
def test_a_broken_plug_in_is_named_once_and_everything_else_works(
    tmp_path: Path, stream: str, code: str, reason: str
) -> None:
    folder = installed(tmp_path / "site", code=code)
    listed = cosmic("methods", folder=folder)
    assert listed.returncode == 0
    assert "zero_shot" in listed.stdout
    assert listed.stdout.count("The plug-in 'toy' of the package toy was skipped") == 1
    assert listed.stderr.count("warning: The plug-in 'toy' of the package toy was skipped: ") == 1
    assert reason in listed.stderr
    assert "Traceback" not in listed.stderr
    evaluated = cosmic("eval", stream, "--method", "tda", "--limit", "5", folder=folder)
    assert (evaluated.returncode, "tda" in evaluated.stdout) == (0, True)
    asked = cosmic("eval", stream, "--method", "toy", folder=folder)
    assert asked.returncode == 2
    assert "unknown method 'toy'" in asked.stderr
    assert reason in asked.stderr.replace("\n", " ")


def test_a_broken_file_does_not_stop_another(tmp_path: Path, stream: str) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")
    (tmp_path / "good.py").write_text(TOY.replace("NAME", "toy"))
    words = ("--include", str(tmp_path / "bad.py"), "--include", str(tmp_path / "good.py"))
    done = cosmic(*words, "eval", stream, "--method", "toy", "--limit", "5")
    assert (done.returncode, "toy" in done.stdout) == (0, True)
    assert "bad.py' was skipped: ZeroDivisionError: division by zero." in done.stderr
    absent = cosmic("--include", str(tmp_path / "absent.py"), "methods")
    assert (absent.returncode, "no file to include at" in absent.stderr) == (2, True)


def test_what_a_failing_file_registered_is_removed(tmp_path: Path, stream: str) -> None:
    (tmp_path / "half.py").write_text(TOY.replace("NAME", "toy") + "\nraise RuntimeError('half way')\n")
    (tmp_path / "half_trained.py").write_text(TRAINED + "\nraise RuntimeError('half way')\n")
    (tmp_path / "good.py").write_text(TOY.replace("NAME", "toy"))  # the name is free again
    words = [word for name in ("half.py", "half_trained.py") for word in ("--include", str(tmp_path / name))]
    listed = json.loads(cosmic(*words, "methods", "--json").stdout)
    assert not {"toy", "linear"} & {row["name"] for row in listed}
    asked = cosmic(*words, "eval", stream, "--method", "toy")
    assert (asked.returncode, "unknown method 'toy'" in asked.stderr) == (2, True)
    trained = cosmic(*words, "train", "linear", stream, "--out", str(tmp_path / "c"))
    assert (trained.returncode, "'linear'" in trained.stderr) == (2, True)
    done = cosmic(*words, "--include", str(tmp_path / "good.py"), "eval", stream, "--method", "toy", "--limit", "5")
    assert (done.returncode, done.stderr.count("half way")) == (0, 2)


def test_two_files_of_one_method_are_named(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    for file in (first, second):
        file.write_text(TOY.replace("NAME", "toy"))
    done = cosmic("--include", str(first), "--include", str(second), "methods")
    reason = f"the method 'toy' is already registered by the plug-in {str(first)!r}; choose another name."
    assert f"warning: The plug-in {str(second)!r} was skipped: {reason}\n" == done.stderr
    assert done.returncode == 0


def test_a_file_that_registers_nothing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text(TOY.replace("@register_method", ""))
    done = cosmic("--include", str(file), "methods")
    reason = "it registers no method and no training objective."
    assert (done.returncode, done.stderr) == (0, f"warning: The plug-in {str(file)!r} was skipped: {reason}\n")


def test_a_sweep_warns_once_however_many_workers_it_has(tmp_path: Path, stream: str) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")
    (tmp_path / "toy.py").write_text(TOY.replace("NAME", "toy"))
    grid = tmp_path / "grid.toml"
    grid.write_text(f"packs = [{json.dumps(stream)}]\nmethods = ['toy']\nseeds = [0, 1]\nlimit = 10\n")
    words = [word for name in ("bad.py", "toy.py") for word in ("--include", str(tmp_path / name))]
    done = cosmic(*words, "sweep", str(grid), "--workers", "2")
    assert (done.returncode, done.stderr.count("was skipped")) == (0, 1), done.stderr


def test_a_failing_check_gives_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "toy.py"
    file.write_text(TOY.replace("NAME", "toy").replace("if learn:", "if True:"))
    done = cosmic("check-method", "toy", "--include", str(file))
    assert done.returncode == 1
    assert "failed  peek_changes_nothing: peek changed the state" in done.stdout
    assert "passed  one_class" in done.stdout
    assert cosmic("check-method", "absent").returncode == 2


def test_importing_the_engine_loads_no_plug_in(tmp_path: Path) -> None:
    folder = installed(tmp_path / "site", code="raise RuntimeError('loaded')")
    script = "import sys, cosmic_tta; cosmic_tta.make_method('tda'); print('toy_package' in sys.modules)"
    done = python("-c", script, folder=folder)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_included_files_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setattr(plugins, "_failures", [])
    (tmp_path / "empty.py").write_text("")
    plugins.include([tmp_path / "empty.py", tmp_path / "empty.py"])
    plugins.include([tmp_path / "empty.py"])
    assert plugins.included_files() == [str(tmp_path / "empty.py")]
    with pytest.raises(InputError, match="no file to include"):
        plugins.include([tmp_path])
    assert plugins.module_name("/a/toy.py") != plugins.module_name("/b/toy.py")
