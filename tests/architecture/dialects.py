"""Dialects of commit metadata: one file with one record each, and no other module asks which dialect it has."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.package import Module, modules_of

LIBRARY = "streams.formats"
RECORDS = f"{LIBRARY}.dialects"
RECORD_CLASS = "Dialect"


def dialect_faults(root: Path) -> list[str]:
    """Modules that make two dialects, that import one, that name one, or that compare a dialect with a constant."""
    modules = modules_of(root)
    names: set[str] = set()
    makers: set[str] = set()
    found: list[str] = []
    for module in modules.values():
        made = [call for call in calls_at_top(module) if getattr(call.func, "id", "") == RECORD_CLASS]
        if module.below.startswith(RECORDS + ".") and made:
            makers.add(module.name)
            names |= {name for call in made for name in name_of(call, module, modules)}
        if len(made) > 1:
            found.append(f"{module.name}: makes {len(made)} dialects")
    for module in modules.values():
        if not module.below.startswith(RECORDS + "."):
            found += [f"{module.name}: imports the dialect {maker}" for maker in sorted(makers & module.imports)]
        if module.below.startswith("streams.") and not module.below.startswith(LIBRARY + "."):
            found += [f"{module.name}: {fault}" for fault in branches(module, names)]
    return sorted(found)


def calls_at_top(module: Module) -> list[ast.Call]:
    values = (node.value for node in module.tree.body if isinstance(node, ast.Assign | ast.AnnAssign))
    return [value for value in values if isinstance(value, ast.Call)]


def name_of(call: ast.Call, module: Module, modules: Mapping[str, Module]) -> Iterator[str]:
    """The dialect's name, written in the record or in a constant of the module or of one that it imports."""
    for keyword in call.keywords:
        if keyword.arg != "name":
            continue
        if isinstance(keyword.value, ast.Name):
            places = [module, *(modules[name] for name in sorted(module.imports & modules.keys()))]
            yield from (text for place in places for text in constants_named(keyword.value.id, place))
        elif isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)


def constants_named(name: str, module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from (str(node.value.value) for target in node.targets if getattr(target, "id", "") == name)


def branches(module: Module, names: set[str]) -> Iterator[str]:
    handles_dialects = any(isinstance(node, ast.expr) and is_dialect(node) for node in module.nodes)
    for node in module.nodes:
        if handles_dialects and isinstance(node, ast.Constant) and node.value in names:
            yield f"names the dialect {node.value} in line {node.lineno}"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(is_dialect(side) for side in sides) and any(is_fixed(side) for side in sides):
                yield f"compares a dialect with a constant in line {node.lineno}"


def is_dialect(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr.startswith("dialect")


def is_fixed(node: ast.expr) -> bool:
    """True for what stands in capitals, as a name or as the owner of an attribute."""
    return any(isinstance(part, ast.Name) and part.id.isupper() for part in ast.walk(node))
