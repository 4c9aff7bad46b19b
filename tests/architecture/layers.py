"""The layers, and what each may import: lazy and indirect imports count."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.package import (
    COMPOSERS,
    IN_MEMORY,
    SPARK_JOBS,
    Module,
    imports_of,
    modules_of,
    own_imports,
    spark_modules,
    third_party,
    top,
)

EFFECTS = frozenset(
    {
        "asyncio", "atexit", "concurrent", "ctypes", "fcntl", "ftplib", "getpass", "glob", "http",
        "importlib", "io", "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "pty",
        "random", "resource", "runpy", "secrets", "select", "selectors", "shutil", "signal", "smtplib",
        "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
    }
)  # fmt: skip
EFFECT_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})
PURE_LIBRARIES = frozenset(
    {"ortools", "numpy", "msgspec", "yaml", "zstandard", "cramjam", "google_crc32c", "re2", "hcl2", "lark", "jinja2",
     "markupsafe"}
)  # fmt: skip
# A library whose errors another one lets through counts as that other one.
PART_OF = {"requests": "jgo", "grpc_reflection": "grpc", "starlette": "uvicorn"}
CLI_LIBRARIES = frozenset({"typer", "rich", "yaml"})
API = frozenset({"api", "api_act"})
# What the composing modules may import besides adapters.
WIRING_MAY_IMPORT = (
    "adapters", "config", "core", "ports", "execution.act", "streams.client",
    "streams.model", "wiring", "",
)  # fmt: skip
# What the code of Spark jobs may reach: executors get it in a zip with these libraries and the standard one.
# Executors may lack google_crc32c: a test computes checksums without it.
JOB_LIBRARIES = frozenset({"pyspark", "pyarrow", "numpy", "google_crc32c"})
SHARED_WITH_JOBS = ("core", "rules", "streams.model")
# Which libraries a library may import; every other folder is a tool.
LIBRARIES: dict[str, frozenset[str]] = {
    "core": frozenset({"core"}),
    "config": frozenset({"core", "config"}),
    "config.read": frozenset({"core", "config", "config.read", "kubernetes", "adapters"}),
    "report": frozenset({"core", "report"}),
    "rules": frozenset({"core", "rules"}),
    "streams.model": frozenset({"core", "streams.model"}),
    "placement": frozenset({"core", "placement"}),
    "kubernetes": frozenset({"core", "config", "kubernetes"}),
    "simulator": frozenset({"core", "simulator"}),
    "ports": frozenset({"core", "config", "streams.model", "ports"}),
    "execution": frozenset({"core", "config", "simulator", "ports", "execution"}),
    "adapters": frozenset({"core", "config", "streams.model", "ports", "adapters"}),
}


def layer_faults(root: Path) -> list[str]:
    modules, package = modules_of(root), root.name
    check = {"pure": pure_faults, "acting": acting_faults, "adapter": adapter_faults, "wiring": wiring_faults}
    found: list[str] = []
    for module in modules.values():
        if any(name.startswith(".") for name in module.imports):
            found.append(f"{module.name}: imports relatively")
        found += check.get(module.layer, command_faults)(module, modules, package)
    return sorted(found)


def pure_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    is_port = module.below.partition(".")[0] == "ports"
    for trail, imported in reached(module, modules):
        if imported in modules and modules[imported].layer != "pure":
            yield f"{module.name}: is pure, but reaches the {modules[imported].layer} module {imported} through {trail}"
        elif imported in modules and modules[imported].below.startswith("ports.") and not is_port:
            yield f"{module.name}: is pure, but reaches the port {imported} through {trail}"
        elif top(imported) != package and top(imported) in EFFECTS and imported not in IN_MEMORY:
            yield f"{module.name}: is pure, but reaches {imported} through {trail}"
        elif third_party(imported, package) and top(imported) not in PURE_LIBRARIES:
            yield f"{module.name}: is pure, but reaches the library {top(imported)} through {trail}"
    for node in module.nodes:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in EFFECT_CALLS:
            yield f"{module.name}: is pure, but calls {node.func.id}() in line {node.lineno}"
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_CALLS and not node.args:
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in ("datetime", "date"):
                yield f"{module.name}: is pure, but reads the clock in line {node.lineno}"


def acting_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for name in sorted(module.imports):
        if name in modules and modules[name].layer in ("adapter", "wiring", "commands"):
            yield f"{module.name}: acts, but imports the {modules[name].layer} module {name}"
        elif third_party(name, package) and top(name) not in PURE_LIBRARIES:
            yield f"{module.name}: acts, but imports the library {top(name)}"


def adapter_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    libraries = {PART_OF.get(top(name), top(name)) for name in module.imports if third_party(name, package)}
    if len(libraries) > 1:
        yield f"{module.name}: is an adapter, but imports several libraries: {', '.join(sorted(libraries))}"
    for other in own_imports(module, modules):
        if other.layer in ("wiring", "commands"):
            yield f"{module.name}: is an adapter, but imports the {other.layer} module {other.name}"
        elif other.layer == "adapter" and not same_folder(module, other):
            yield f"{module.name}: is an adapter, but imports the adapter {other.name}"


def same_folder(one: Module, other: Module) -> bool:
    """The files of one folder below `adapters` make one adapter; those that lie flat are one each."""
    return one.path.parent == other.path.parent and one.below.count(".") > 1


def wiring_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for other in own_imports(module, modules):
        if not any(other.below == folder or other.below.startswith(f"{folder}.") for folder in WIRING_MAY_IMPORT):
            yield f"{module.name}: is wiring, but imports {other.name}"
    for name in sorted(module.imports):
        if third_party(name, package):
            yield f"{module.name}: is wiring, but imports the library {top(name)}"


def command_faults(module: Module, modules: dict[str, Module], package: str) -> Iterator[str]:
    for name in sorted(module.imports):
        if third_party(name, package) and top(name) not in CLI_LIBRARIES:
            yield f"{module.name}: is of the command line, but imports the library {top(name)}"


def reached(module: Module, modules: dict[str, Module]) -> Iterator[tuple[str, str]]:
    """Every import that a module reaches through pure modules, with the way to it."""
    queue = [(module.name, module.name)]
    seen: set[str] = set()
    while queue:
        name, trail = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for imported in sorted(modules[name].imports):
            yield trail, imported
            if imported in modules and modules[imported].layer == "pure":
                queue.append((imported, f"{trail} -> {imported}"))


def run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only the type checker sees."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from run_nodes(child)


def circles(root: Path) -> list[str]:
    """Modules that reach themselves through imports, lazy ones included, each with the shortest way round."""
    return shortest_circles(
        {module.name: imports_of(run_nodes(module.tree)) - {module.name} for module in modules_of(root).values()}
    )


def circles_of_types(root: Path) -> list[str]:
    """Circles that close only through imports under `TYPE_CHECKING`.

    These count too: Python loads such modules, but neither can be read, tested or moved without the other. They stay a
    rule of their own, so that a circle that runs is not lost among them.
    """
    graph = {module.name: module.imports - {module.name} for module in modules_of(root).values()}
    return sorted(set(shortest_circles(graph)) - set(circles(root)))


def shortest_circles(graph: Mapping[str, frozenset[str]]) -> list[str]:
    ordered = {name: sorted(imported & graph.keys()) for name, imported in graph.items()}
    found = []
    for start, first in ordered.items():
        ways = [(name, [start, name]) for name in first]
        seen: set[str] = set()
        for name, way in ways:
            if name == start:
                found.append(" -> ".join(way))
                break
            if name not in seen:
                seen.add(name)
                ways += [(further, [*way, further]) for further in ordered[name]]
    return found


def owner_of(below: str) -> str:
    """The library or tool that a module belongs to, the longest name that fits."""
    parts = below.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LIBRARIES:
            return ".".join(parts[:length])
    return ".".join(parts[:2]) if parts[0] == "streams" and len(parts) > 2 else parts[0]


def tool_faults(root: Path) -> list[str]:
    """Tools use each other through `api` and `api_act` alone; libraries use no tool."""
    modules = modules_of(root)
    found = []
    for module in modules.values():
        own = owner_of(module.below)
        for other in own_imports(module, modules):
            theirs = owner_of(other.below)
            if own == theirs or module.layer == "wiring":
                continue
            if own in LIBRARIES:
                if theirs not in LIBRARIES[own]:
                    found.append(f"{module.name}: belongs to the library {own}, but imports {other.name}")
            elif theirs not in LIBRARIES and not may_use(own, theirs, other):
                found.append(f"{module.name}: imports {other.name}, but {theirs} shows its api only")
    return sorted(found)


def may_use(own: str, theirs: str, other: Module) -> bool:
    if theirs in ("cli", "wiring", "kafkakit", "") or own in ("cli", "wiring", "__main__"):
        return True
    if other.below in COMPOSERS:  # the way in for applications, which a command is as well
        return True
    # A folder of tools has one module that puts their command groups together.
    return other.below.rpartition(".")[2] in API or (own == "streams" and "commands" in other.below)


def spark_faults(root: Path) -> list[str]:
    """`root` is the package beside whose folder `spark/` lies."""
    return sorted(_spark_faults(root))


def _spark_faults(root: Path) -> Iterator[str]:
    jobs, shared = spark_modules(root), modules_of(root)
    for module in jobs.values():
        if top(module.name) != SPARK_JOBS:
            continue
        queue = [(module.name, module.name)]
        seen: set[str] = set()
        while queue:
            name, trail = queue.pop()
            if name in seen:
                continue
            seen.add(name)
            for imported in sorted((jobs.get(name) or shared[name]).imports):
                below = imported.removeprefix(f"{root.name}.")
                if imported in jobs or (
                    imported in shared and any(f"{below}.".startswith(f"{folder}.") for folder in SHARED_WITH_JOBS)
                ):
                    queue.append((imported, f"{trail} -> {imported}"))
                elif imported in shared and below not in (root.name, "streams"):
                    yield f"{module.name}: runs on executors, but reaches {imported} through {trail}"
                elif third_party(imported, SPARK_JOBS) and top(imported) not in (root.name, *JOB_LIBRARIES):
                    yield f"{module.name}: runs on executors, but reaches the library {top(imported)} through {trail}"
