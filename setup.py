"""The compiled kernel. Where it cannot be built, the engine runs on its plain path."""

import sys
from pathlib import Path

from setuptools import Extension, setup

# No -ffast-math: the order of additions can decide which of two nearly equal pairs becomes an edge.
UNIX = ["-O3", "-std=gnu11", "-ffp-contract=fast", "-Wall", "-Wextra", "-Wshadow"]
kernel = Extension(
    "cosmic_tta.core._kernel",
    sources=sorted(map(str, Path("kernel").rglob("*.c"))),
    depends=sorted(map(str, Path("kernel").rglob("*.h"))),
    extra_compile_args=["/O2"] if sys.platform == "win32" else UNIX,
    optional=True,
)
setup(ext_modules=[kernel])
