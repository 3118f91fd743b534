"""The engine needs NumPy alone."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "torch",
    "PIL",
    "onnxruntime",
    "transformers",
    "scipy",
    "networkx",
    "safetensors",
    "typer",
    "rich",
    "click",
    "pandas",
)


def test_importing_the_engine_pulls_in_nothing_heavy() -> None:
    script = "import sys, cosmic_tta; print(' '.join(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "numpy" in loaded
    assert not set(HEAVY) & set(loaded)


def test_the_engine_steps_with_every_other_package_forbidden() -> None:
    script = f"""
import sys
for name in {HEAVY!r}:
    sys.modules[name] = None
import numpy as np
from cosmic_tta import Cosmic, Sample, Task
eye = np.eye(4, dtype=np.float32)
method = Cosmic()
state = method.init(Task(("a", "b", "c", "d"), eye))
print([method.step(state, Sample(eye[[i]], eye[i])).label for i in (2, 0, 3)])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[2, 0, 3]"
