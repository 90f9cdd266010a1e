"""Names of a package that are imported on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dhilgt.utils.openmp import wait_briefly

_EXTRA = ("torch", "safetensors")


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names need torch, imported on first use.

    Hub labels and tokens work without torch, so it is imported only when it is needed.

    Args:
        package: Name of the package.
        places: The module of each name. If the last part of the module's path is the name, the
            name stands for the module itself.

    Example:
        >>> lazy_names("demo", {"sqrt": "math"})("sqrt")(9.0)
        3.0
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        wait_briefly()
        try:
            module = import_module(places[name])
        except ModuleNotFoundError as error:
            if error.name not in _EXTRA:
                raise
            raise ImportError(
                f"dhilgt.{name} needs {error.name}; install it with pip install 'dhilgt[train]'"
            ) from error
        return module if places[name].endswith(f".{name}") else getattr(module, name)

    return get
