"""The version of the package, for modules below `cosmic_tta/__init__.py`."""

__version__ = "0.1.0"
