"""Methods from outside the package: of other installed packages, and of single files.

An installed package names its methods as entry points of the group `cosmic_tta.methods`; each names a module or a
class. The environment variable `COSMIC_TTA_INCLUDE` lists Python files; worker processes read it too. A plug-in that
cannot be loaded is skipped whole, with one warning: what it registered before its error is removed.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from cosmic_tta.core.errors import InputError

GROUP = "cosmic_tta.methods"
VARIABLE = "COSMIC_TTA_INCLUDE"  # paths of Python files, separated as in PATH
_LOCK = RLock()
_entry_points_loaded = False
_files_loaded: set[str] = set()
_failures: list[PluginFailure] = []
_registries: list[PluginRegistry] = []
_loading: ContextVar[str] = ContextVar("the plug-in that is being loaded", default="")


class PluginRegistry(Protocol):
    """What this module needs of a registry."""

    def names_from(self, source: str) -> list[str]:
        """Return the names that a source registered."""
        ...

    def remove_from(self, source: str) -> None:
        """Remove what a source registered."""
        ...


class PluginFailure(NamedTuple):
    """A plug-in that was skipped: where it comes from, and why."""

    source: str
    reason: str

    def __str__(self) -> str:
        return f"The plug-in {self.source} was skipped: {self.reason}"


class IncludedFileFinder(MetaPathFinder):
    """Imports included files under a name of their own, so that a worker can unpickle their classes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an included file, if the name is one's."""
        for file in included_files():
            if module_name(file) == fullname:
                return spec_from_file_location(fullname, file)
        return None


def module_name(file: str) -> str:
    """Return the module name of an included file."""
    return f"cosmic_tta_include_{Path(file).stem}_{blake2b(file.encode(), digest_size=4).hexdigest()}"


def included_files() -> list[str]:
    """Return the files that the environment variable lists."""
    return [file for file in os.environ.get(VARIABLE, "").split(os.pathsep) if file]


def include(files: Iterable[str | os.PathLike[str]]) -> None:
    """Add Python files with methods, for this process and those that it starts.

    Args:
        files: The files. Their classes use `@register_method`.

    Raises:
        InputError: There is no such file.

    Examples:
        >>> from cosmic_tta.core.errors import InputError
        >>> try:
        ...     include(["no_such_file.py"])
        ... except InputError as error:
        ...     print("no_such_file.py" in str(error))
        True
    """
    listed = included_files()
    for file in files:
        path = Path(file)
        if not path.is_file():
            raise InputError(f"no file to include at {str(path)!r}; give a Python file with a method.")
        listed.append(str(path.resolve()))
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys(listed))
    _load_files()


def add_registry(registry: PluginRegistry) -> None:
    """Add a registry that plug-ins register classes in."""
    _registries.append(registry)


def source_of(kind: type) -> str:
    """Return what registers a class now: a plug-in, or the module of the class."""
    if _loading.get():
        return _loading.get()
    files = (file for file in included_files() if module_name(file) == kind.__module__)  # unpickled in a worker
    return next((_plugin(repr(file)) for file in files), kind.__module__)


def load(register: Callable[[Any], None]) -> None:
    """Load all plug-ins that were not loaded yet; `register` is given what an entry point names."""
    _load_files()
    _load_entry_points(register)


def failures() -> tuple[PluginFailure, ...]:
    """Return the plug-ins that were skipped so far."""
    return tuple(_failures)


def _load_files() -> None:
    with _LOCK:
        for file in included_files():
            if file not in _files_loaded:
                _files_loaded.add(file)  # first: the file itself may ask for a method
                with _skipped_on_error(repr(file)) as source:
                    import_module(module_name(file))
                    if not any(registry.names_from(source) for registry in _registries):
                        raise InputError("it registers no method and no training objective")


def _load_entry_points(register: Callable[[Any], None]) -> None:
    global _entry_points_loaded
    with _LOCK:
        if _entry_points_loaded:
            return
        _entry_points_loaded = True
        from importlib.metadata import entry_points

        for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
            package = f" of the package {point.dist.name}" if point.dist else ""
            with _skipped_on_error(f"{point.name!r}{package}"):
                register(point.load())


def _plugin(name: str) -> str:
    return f"the plug-in {name}"


@contextmanager
def _skipped_on_error(name: str) -> Iterator[str]:
    """Load a plug-in: give what the registries call it, and remove what it registered if it fails."""
    source = _plugin(name)
    token = _loading.set(source)
    try:
        yield source
    except (Exception, SystemExit) as error:
        for registry in _registries:
            registry.remove_from(source)
        detail = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        _failures.append(PluginFailure(name, detail if detail.endswith(".") else f"{detail}."))
        if multiprocessing.parent_process() is None:  # a worker's parent has warned
            # Without a configured handler, this prints the message alone to standard error.
            logging.getLogger("cosmic_tta").warning("warning: %s", _failures[-1])
    finally:
        _loading.reset(token)


sys.meta_path.append(IncludedFileFinder())
