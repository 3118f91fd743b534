"""The registry of methods and training objectives: a decorator adds a class, and plug-ins are found on first use.

Every module of `cosmic_tta.methods` is imported, so a new file registers itself. `methods.plugins` adds the methods
of other installed packages and of single files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar, cast

from cosmic_tta.core.errors import InputError, UnknownNameError, unknown_name
from cosmic_tta.core.method import Method
from cosmic_tta.core.parameters import known_parameter
from cosmic_tta.methods import plugins
from cosmic_tta.methods.components.training import TrainingObjective

T = TypeVar("T")
MethodClass = TypeVar("MethodClass", bound=type[Method[Any]])
ObjectiveClass = TypeVar("ObjectiveClass", bound=type[TrainingObjective])
RESOURCES = ("support", "checkpoint")
"""What a method takes beside its hyper-parameters, if it needs it."""
PACKAGE = "cosmic_tta."


class Registry(Mapping[str, type[T]]):
    """Classes by name. A name that the package itself does not have is looked for in plug-ins."""

    def __init__(self, kind: str, order: Callable[[type[T]], Any]) -> None:
        self._kind, self._order = kind, order
        self._classes: dict[str, type[T]] = {}
        self._sources: dict[str, str] = {}  # by name: a module, or a plug-in
        plugins.add_registry(self)

    def add(self, name: str, registered: type[T]) -> None:
        """Add a class; the same class may be added again, another one of the same name is refused."""
        other = self._classes.get(name)
        if other is not None and _path(other) != _path(registered):
            raise InputError(
                f"the {self._kind} {name!r} is already registered by {self._sources[name]}; choose another name."
            )
        self._sources.setdefault(name, plugins.source_of(registered))
        self._classes[name] = registered

    def names_from(self, source: str) -> list[str]:
        """Return the names that a source registered."""
        return [name for name, other in self._sources.items() if other == source]

    def remove(self, name: str) -> None:
        """Remove a class."""
        del self._classes[name], self._sources[name]

    def remove_from(self, source: str) -> None:
        """Remove what a source registered."""
        for name in self.names_from(source):
            self.remove(name)

    def __getitem__(self, name: str) -> type[T]:
        if name not in self._classes:
            plugins.load(register_loaded)
        return self._classes[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names: those of the package in their order, then those of plug-ins as they came."""
        plugins.load(register_loaded)
        own = {name: kind for name, kind in self._classes.items() if kind.__module__.startswith(PACKAGE)}
        yield from sorted(own, key=lambda name: self._order(own[name]))
        yield from [name for name in self._classes if name not in own]

    def __len__(self) -> int:
        plugins.load(register_loaded)
        return len(self._classes)


def _path(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _method_order(kind: type[Method[Any]]) -> Any:
    return kind.needs, kind.year or 9999, kind.name


METHODS: Registry[Method[Any]] = Registry("method", _method_order)
"""All registered methods, by name."""
OBJECTIVES: Registry[TrainingObjective] = Registry("training objective of", lambda kind: kind.method)
"""All registered training objectives, by the name of their method."""


def register_method(kind: MethodClass) -> MethodClass:
    """Register a method under its `name`. Use it as a decorator above `@dataclass(frozen=True)`.

    Args:
        kind: A frozen dataclass that extends `Method`.

    Returns:
        The same class.

    Raises:
        InputError: It is no such class, its name cannot be used on the command line, or another method has it.

    Examples:
        >>> from cosmic_tta import ZeroShot
        >>> register_method(ZeroShot) is METHODS["zero_shot"]  # it is registered already
        True
    """
    frozen = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    if not (isinstance(kind, type) and issubclass(kind, Method) and frozen):
        raise InputError(f"register_method expects a frozen dataclass that extends Method; given {kind!r}.")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"{kind.__name__}.name must be letters, digits and underscores; given {name!r}.")
    if "default" not in kind.presets:
        raise InputError(f"{kind.__name__}.presets must have a preset 'default'; given {sorted(kind.presets)}.")
    METHODS.add(name, kind)
    return kind


def register_objective(kind: ObjectiveClass) -> ObjectiveClass:
    """Register the training objective of a method, under the method's name. Use it as a decorator.

    Args:
        kind: A class that extends `TrainingObjective`.

    Returns:
        The same class.

    Raises:
        InputError: It is no such class, or another class trains the method already.

    Examples:
        >>> register_objective(OBJECTIVES["coop"]) is OBJECTIVES["coop"]
        True
    """
    if not (isinstance(kind, type) and issubclass(kind, TrainingObjective)):
        raise InputError(f"register_objective expects a class that extends TrainingObjective; given {kind!r}.")
    OBJECTIVES.add(kind.method, kind)
    return kind


def register_loaded(loaded: Any) -> None:
    """Register what an entry point names: a method, an objective, or a module whose import registers its classes."""
    if not isinstance(loaded, type):
        return
    if issubclass(loaded, TrainingObjective):
        register_objective(loaded)
    else:
        register_method(cast(type[Method[Any]], loaded))


def discover() -> None:
    """Import every module of `cosmic_tta.methods`, so that its classes register themselves."""
    package = import_module("cosmic_tta.methods")
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)


def plugin_failures() -> tuple[plugins.PluginFailure, ...]:
    """Return the plug-ins that could not be loaded, each with the reason.

    Examples:
        >>> len(plugin_failures())  # no plug-in is installed
        0
    """
    plugins.load(register_loaded)
    return plugins.failures()


def _unknown_method(name: str) -> UnknownNameError:
    error = unknown_name("method", name, METHODS)
    failures = " ".join(map(str, plugin_failures()))
    return UnknownNameError(f"{error} {failures}") if failures else error


def split_name(spec: str) -> tuple[type[Method[Any]], str]:
    """Split `name` or `name@preset` into the class of the method and the name of the preset.

    Args:
        spec: For example `cosmic` or `cosmic@official`.

    Returns:
        The class, and the preset's name; `default` if none is given.

    Raises:
        UnknownNameError: There is no such method or preset.

    Examples:
        >>> split_name("cosmic@paper")[1], split_name("tda")[1]
        ('paper', 'default')
    """
    name, _, preset = spec.partition("@")
    if name not in METHODS:
        raise _unknown_method(name)
    kind = METHODS[name]
    if (preset or "default") not in kind.presets:
        raise unknown_name(f"preset of {name}", preset, kind.presets)
    return kind, preset or "default"


def make_method(spec: str, **parameters: Any) -> Method[Any]:
    """Make a method by name.

    Args:
        spec: `name` or `name@preset`, for example `cosmic@official`.
        **parameters: Values that differ from the preset; also `support` or `checkpoint` where the method needs it.

    Returns:
        The method.

    Raises:
        UnknownNameError: There is no such method or preset.
        ParameterError: A parameter is unknown or out of range, or the method needs something that is not given.

    Examples:
        >>> make_method("cosmic@official", shots=4).shots
        4
    """
    kind, preset = split_name(spec)
    for name in parameters:
        if name not in RESOURCES or name not in kind.needs:
            known_parameter(kind, name)
    return kind(**{**kind.presets[preset], **parameters})
