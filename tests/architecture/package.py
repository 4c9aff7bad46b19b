"""A package read as modules with their layer and imports; nothing of it is run."""

import ast
import gc
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Folders whose content has one layer; the longest name that fits wins. What no rule names is pure.
FOLDERS = {
    "adapters": "adapter",
    "cli": "commands",
    "config.read": "commands",
    "sandbox": "acting",
    "streams.client": "acting",
    "registry.client": "acting",
    "wiring": "wiring",
    "__main__": "commands",
}
# The layers of a tool, each a module or a folder of that name.
ROOMS = {
    "decide": "pure", "report": "pure", "api": "pure",
    "act": "acting", "api_act": "acting", "commands": "commands",
}  # fmt: skip
SPARK_JOBS = "kafkakit_spark"
# Applications use the client without a command line, so this one module composes it with adapters.
COMPOSERS = frozenset({"streams.client.connect"})


@dataclass(frozen=True)
class Module:
    name: str
    below: str
    layer: str
    path: Path
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    imports: frozenset[str]

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def layer_of(below: str) -> str:
    if below in COMPOSERS:
        return "wiring"
    parts = below.split(".")
    for part in parts:
        if part in ROOMS and parts[0] not in ("cli", "config", "adapters"):
            return ROOMS[part]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in FOLDERS:
            return FOLDERS[".".join(parts[:length])]
    return "pure"


IN_MEMORY = frozenset({"io.BytesIO", "io.StringIO"})
"""Files that are values."""


def imports_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = ("." * node.level) + (node.module or "")
            if not all(f"{source}.{alias.name}" in IN_MEMORY for alias in node.names):
                found.add(source)
            found.update(f"{source}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def modules_of(root: Path) -> dict[str, Module]:
    # Two million new objects, of which none goes before the end: the collector would double the time.
    gc.disable()
    try:
        return dict(_read(root, root.name))
    finally:
        gc.freeze()
        gc.enable()


@cache
def spark_modules(root: Path) -> dict[str, Module]:
    """The modules in the folder `spark/` beside the package."""
    return dict(_read(root.parent / "spark", ""))


def all_modules(root: Path) -> list[Module]:
    """Every module of the package and of `spark/` that holds anything."""
    both = (*modules_of(root).values(), *spark_modules(root).values())
    return [module for module in both if module.text.strip()]


def _read(root: Path, package: str) -> Iterator[tuple[str, Module]]:
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        below = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        name = f"{package}.{below}".strip(".")
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        nodes = tuple(ast.walk(tree))
        yield name, Module(name, below, layer_of(below), path, text, tree, nodes, imports_of(nodes))


def own_imports(module: Module, modules: dict[str, Module]) -> Iterator[Module]:
    """The modules of the package that a module imports; a package's empty `__init__` does not count."""
    for name in sorted(module.imports):
        if name in modules and modules[name].path.name != "__init__.py":
            yield modules[name]


def third_party(name: str, package: str) -> bool:
    return bool(top(name)) and top(name) != package and top(name) not in sys.stdlib_module_names


def top(name: str) -> str:
    return name.partition(".")[0]
