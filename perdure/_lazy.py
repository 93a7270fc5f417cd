"""Names of a package that are imported on first use: `import perdure` loads neither YAML nor
Temporal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package whose public names live in its
    modules.

    `homes` maps each module (relative to `package`) to the names that it defines, separated by
    spaces. An error in the import of such a module is raised unchanged; an unknown name raises
    AttributeError.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = value = getattr(import_module(home_of[name], package), name)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *home_of})

    return get, names, sorted(home_of)
