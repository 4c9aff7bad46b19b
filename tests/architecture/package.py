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
# The rooms of a tool, as folders or as flat files of the same name.
ROOMS = {"decide": "pure", "show": "pure", "api": "pure", "act": "acting", "commands": "commands", "api_act": "acting"}
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


def imports_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = ("." * node.level) + (node.module or "")
            found.add(source)
            found.update(f"{source}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def modules_of(root: Path) -> dict[str, Module]:
    # Two million new objects, of which none goes before the end: the collector would double the time.
    gc.disable()
    try:
        return dict(_read(root))
    finally:
        gc.freeze()
        gc.enable()


def _read(root: Path) -> Iterator[tuple[str, Module]]:
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        below = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        name = f"{root.name}.{below}".rstrip(".")
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
