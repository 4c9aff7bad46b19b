"""How much a module and a folder hold, and how much of the package comes with an import.

Lines are those of the file, docstrings and blank lines included.
"""

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import median

from tests.architecture.layers import API, LIBRARIES, owner_of
from tests.architecture.package import ROOMS, Module, all_modules, modules_of, own_imports, spark_modules, top

MOST_LINES = 700
SMALL_LINES = 100
MOST_SMALL_PERCENT = 20
LEAST_MEDIAN_LINES = 200
# 480, 22 for the status of clusters, its objects and pages, 3 for objects of Kubernetes, 2 for cordons and operators.
MOST_MODULES = 507
FOLDER_MODULES, FOLDER_LINES = 3, 1200
# The folder of a layer, and of a tool or library, needs only more than one module should hold.
OWN_FOLDER_MODULES, OWN_FOLDER_LINES = 2, 600
SMALL_FOLDERS = {
    "adapters.rpc": "the protocol's files lie in it",
    "topicmappr.act": "places come with --help, and planning is heavy",
}
# Folders of records, one a module, that a registry lists: rules, kinds, dialects, families and jobs.
RECORD_FOLDERS = frozenset({"rules", "kinds", "dialects", "families", "jobs"})
# What may import a module of its folder alone: the list of a tool's commands, and the door to a tool.
LISTS = API | {"app"}
# What applications import of the client, how many modules come with it at most (packages counted), what may not come.
CLIENT = "streams.client"
LIBRARY_MODULE = f"{CLIENT}.connect"
LIBRARY_LOADS = 90
LIBRARY_LOADS_NOT = ("topicmappr", "placement", "execution", "reassign", "simulator", "cli")
LIBRARY_LOADS_NO_LIBRARY = ("typer", "rich", "click", "ortools", "numpy")
COUNT_LOADED = """
import importlib, sys
importlib.import_module(sys.argv[1])
print("\\n".join(sys.modules))
"""


def large_modules(root: Path) -> list[str]:
    return [
        f"{module.name}: has {module.lines} lines, {MOST_LINES} are the most"
        for module in all_modules(root)
        if module.lines > MOST_LINES
    ]


def size_faults(root: Path) -> list[str]:
    """What all modules together are: how many, how many small ones, and the median."""
    lines = [module.lines for module in all_modules(root)]
    small = sum(number < SMALL_LINES for number in lines)
    found = []
    if len(lines) > MOST_MODULES:
        found.append(f"there are {len(lines)} modules, {MOST_MODULES} are the most")
    if small * 100 > MOST_SMALL_PERCENT * len(lines):
        part = f"{small} of {len(lines)} modules ({small * 100 // len(lines)} %)"
        found.append(f"{part} have less than {SMALL_LINES} lines, {MOST_SMALL_PERCENT} % are the most")
    if median(lines) < LEAST_MEDIAN_LINES:
        found.append(f"the median module has {median(lines):.0f} lines, {LEAST_MEDIAN_LINES} are the least")
    return found


def split_topics(root: Path) -> list[str]:
    """Modules that one module alone imports, which lies in their folder and has their layer, where one holds both.

    Records of a registry may stand alone, and so may what has tests of its own.
    """
    modules = {module.name: module for module in all_modules(root)}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for name in (module.imports & modules.keys()) - {module.name}:
            importers[name].add(module.name)
    tested = {name for path, names in names_in_tests(root) if path.name.startswith("test_") for name in names}
    found = []
    for name, by in sorted(importers.items()):
        one, other = modules[name], modules[min(by)]
        if len(by) > 1 or one.path.parent != other.path.parent or one.layer != other.layer:
            continue
        is_listed = one.path.parent.name in RECORD_FOLDERS or other.path.stem in LISTS
        if one.lines + other.lines > MOST_LINES:
            continue
        if one.path.name != "__init__.py" and not is_listed and name not in tested:
            found.append(f"{name}: only {other.name} imports it, and no test does; make them one module")
    return found


@cache
def names_in_tests(root: Path) -> tuple[tuple[Path, frozenset[str]], ...]:
    """The modules, and what stands in them, that each file of tests and benchmarks names; in its texts too."""
    files = (path for folder in ("tests", "bench") for path in sorted((root.parent / folder).rglob("*.py")))
    return tuple((path, frozenset(dotted_names(path.read_text(encoding="utf-8"), root.name))) for path in files)


def dotted_names(text: str, package: str) -> Iterator[str]:
    """`kit.a.b` for each such name, and `kit.a.b.x` for each x of `from kit.a.b import x`."""
    packages = rf"(?:{package}|kafkakit_spark)"
    yield from re.findall(rf"\b{packages}(?:\.\w+)+", text)
    for source, names in re.findall(rf"\bfrom ({packages}[\w.]*) import (\([^)]*\)|[^\n]+)", text):
        yield from (f"{source}.{name}" for name in re.findall(r"(?:^|[,(])\s*(\w+)", names))


def folder_faults(root: Path) -> list[str]:
    """Folders that hold too little to be one.

    The folder of a tool may be as small as its layers are. That of a layer or a library needs two modules and more
    lines than one module should hold, as a module of one layer has nowhere else to go.
    """
    found, lines_below = [], defaultdict[Path, int](int)
    for module in modules_of(root).values():
        for folder in module.path.parents:
            lines_below[folder] += module.lines
    for folder in sorted({path.parent for path in root.rglob("*.py")} - {root}):
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        folders = [path for path in folder.iterdir() if path.is_dir() and any(path.glob("*.py"))]
        layers = {path.stem for path in (*files, *folders)} & ROOMS.keys()
        below = ".".join(folder.relative_to(root).parts)
        if len(layers - API) > 1 or below in SMALL_FOLDERS:
            continue
        is_own = folder.name in ROOMS or below in LIBRARIES
        modules, lines = (OWN_FOLDER_MODULES, OWN_FOLDER_LINES) if is_own else (FOLDER_MODULES, FOLDER_LINES)
        if len(files) + len(folders) < modules or lines_below[folder] < lines:
            held = f"{len(files) + len(folders)} modules and folders with {lines_below[folder]} lines"
            found.append(f"{folder.relative_to(root.parent)}: holds {held}; make it one module, or move them up")
    return found


def loading_faults(root: Path) -> list[str]:
    """What comes with the client when a process imports it, and what its modules import later, inside of functions.

    That the command's help loads nothing heavy is tested in `tests/cli/test_root.py`.
    """
    modules = modules_of(root)
    if f"{root.name}.{LIBRARY_MODULE}" not in modules:
        return []
    inside = [module for module in modules.values() if f"{module.below}.".startswith(f"{CLIENT}.")]
    later = [
        f"{module.name}: imports {other.name}"
        for module in inside
        for other in own_imports(module, modules)
        if top(other.below) in LIBRARY_LOADS_NOT
    ]
    ran = subprocess.run(
        [sys.executable, "-c", COUNT_LOADED, f"{root.name}.{LIBRARY_MODULE}"],
        capture_output=True,
        text=True,
        cwd=root.parent,
        env={**os.environ, "PYTHONPATH": str(root.parent)},
        timeout=120,
        check=True,
    )
    loaded = ran.stdout.split()
    own = [name for name in loaded if f"{name}.".startswith(f"{root.name}.")]
    return [*_loading_faults(own, loaded, root.name), *later]


def _loading_faults(own: list[str], loaded: Iterable[str], package: str) -> Iterator[str]:
    if len(own) > LIBRARY_LOADS:
        yield f"{LIBRARY_MODULE}: loads {len(own)} modules, {LIBRARY_LOADS} are the most"
    for folder in LIBRARY_LOADS_NOT:
        number = sum(f"{name}.".startswith(f"{package}.{folder}.") for name in own)
        if number:
            yield f"{LIBRARY_MODULE}: loads {number} modules of {folder}"
    for library in sorted(set(LIBRARY_LOADS_NO_LIBRARY) & set(loaded)):
        yield f"{LIBRARY_MODULE}: loads the library {library}"


def unused_api(root: Path) -> list[str]:
    """Names that an api hands on and nobody takes: no module of another tool, no test, no benchmark."""
    modules = modules_of(root)
    apis = [module for module in modules.values() if module.below.rpartition(".")[2] in API and is_of_tool(module)]
    taken = {name for _, names in names_in_tests(root) for name in names}
    users: dict[str, set[str]] = defaultdict(set)
    for module in (*modules.values(), *spark_modules(root).values()):
        for name in (*module.imports, *attributes_of_modules(module)):
            users[name].add(owner_of(module.below))
    found = []
    for api in apis:
        used_here = {node.id for node in api.nodes if isinstance(node, ast.Name)}
        for name in handed_on(api, root.name):
            full, own = f"{api.name}.{name}", owner_of(api.below)
            if name not in used_here and full not in taken and not users[full] - {own}:
                found.append(f"{api.name}: hands on {name}, which nobody takes")
    return found


def attributes_of_modules(module: Module) -> Iterator[str]:
    """What is used of a module that is imported as a name: `api.Skip` after `from kit.tool import api`."""
    imports = (node for node in module.nodes if isinstance(node, ast.ImportFrom))
    bound = {each.asname or each.name: f"{node.module}.{each.name}" for node in imports for each in node.names}
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
            yield f"{bound[node.value.id]}.{node.attr}"


def is_of_tool(module: Module) -> bool:
    """An api stands in its tool's folder; in the folder of a layer it is a module like others."""
    return not set(module.below.split(".")[:-1]) & ROOMS.keys()


def handed_on(api: Module, package: str) -> Iterator[str]:
    for node in api.tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package:
            yield from (alias.asname or alias.name for alias in node.names)
