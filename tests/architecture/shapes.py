"""The shapes of modules: what only re-exports, how options, classes and arrays are made, who reads a rule."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.architecture.layers import API
from tests.architecture.package import Module, all_modules, modules_of, top

# What a rule of groups demands, and what puts it on record.
DEMANDS = frozenset({"min_groups", "spread_over", "min_rack_ids", "repeats_allowed"})
RECORDS = frozenset({"PlacementRules", "replace"})
NOT_IN_COMMANDS = frozenset({"signal", "threading", "multiprocessing", "socket", "subprocess"})
# Dialects of commit metadata: one module with one record each, in a folder of these libraries.
DIALECT_LIBRARIES = ("streams.model",)
DIALECT_FOLDERS = tuple(f"{library}.dialects." for library in DIALECT_LIBRARIES)
DIALECT_CLASS = "Dialect"
MOST_COPIES = 20
# Participles that do not end with -ed; those that are also plain verbs or nouns (read, set, cut, left) are not here.
PARTICIPLES = frozenset(
    {"alike", "begun", "beside", "built", "chosen", "done", "drawn", "dealt", "foretold", "forgotten", "found", "given",
     "gone", "grown", "held", "hidden", "kept", "known", "lost", "made", "meant", "met", "misread", "proven", "said",
     "seen", "sent", "shown", "spelt", "taken", "told", "undone", "unheld", "unmet", "unwound", "withdrawn", "worn",
     "wound", "written"}
)  # fmt: skip
NO_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"})
BINARY, COMMIT, REPORT = "streams.model.binary", "streams.model.commit", "report.report"
# What a function gives that makes sections, and the one way to take a text that was made elsewhere.
SECTIONS, WHOLE_TEXTS = (
    frozenset({"Part", "Section", "ResultTable", "Report"}),
    frozenset({"lines_from", "RawDocument"}),
)
# Jobs that one module does: that module, and what a second one would import, or how its code would look.
ONE_MODULE: Mapping[str, tuple[str, frozenset[str], str]] = {
    "serves HTTP": (
        "adapters.rpc.http_listener",
        frozenset(
            {"aiohttp", "bottle", "cherrypy", "fastapi", "flask", "gunicorn", "h11", "http.server", "hypercorn",
             "sanic", "socketserver", "starlette", "tornado", "uvicorn", "waitress", "werkzeug", "wsgiref",
             "xmlrpc.server"}
        ),
        r"\b(?:start_server|start_unix_server|create_server|start_serving)\(|\.listen\(\d*\)",
    ),
    "reads the state of processes": (
        "adapters.host", frozenset({"psutil"}), r"/proc/\S*\}/stat\b|\*/stat\b"
    ),
    "reads headers of record batches": (
        BINARY, frozenset(), r"""["'][<>!]?qii[bB]|["']base_offset["'], ?["'](?:[<>]|q\b)"""
    ),
    "reads varints": (BINARY, frozenset(), r"& ?(?:127|0x7[fF])\b"),
    "computes CRC-32C": (BINARY, frozenset({"google_crc32c", "crc32c"}), r"0x82[fF]63[bB]78|\bcalc_crc32c\b"),
    "renders pages": (
        "report.pages",
        frozenset({"jinja2", "markupsafe", "mako", "chameleon", "dominate", "htpy", "lxml"}),
        r"(?i)<!doctype html|</?(?:html|head|body|style|script|svg|table|tr|td|th|h[1-6]|p|div|span|ul|li)\b[^<>\n]*>",
    ),
    "waits": ("ports.acting", frozenset({"time.sleep"}), r"(?<!asyncio)(?<!_net)\.sleep\(|\btime\.sleep\b"),
    "prints files of systemd": ("report.exports", frozenset(), r"\[Service\]|\[Timer\]"),
    "reads the minimum of replicas in sync": (
        "core.findings", frozenset(), r"\bMIN_ISR = |\.get\([\"']min\.insync\.replicas"
    ),
    "changes settings": ("execution.act.retrier", frozenset(), r"\.alter_configs\b"),
    "measures time": ("adapters.host", frozenset({"time.monotonic"}), r"\btime\.monotonic\b"),
    "ends services": ("core.errors", frozenset(), r"\bServiceStoppedError\(|\bTerminatedRunError\(f?[\"']"),
    "leads in turn": ("execution.act.leases", frozenset(), r"\.is_held\(\):(?=\n\s+\S*\.require_held\()"),
    "raises aborts": ("execution.act.control_requests", frozenset(), r"\.abort:(?=\n\s+\S*\.answer\()"),
    "names the topic of commits": ("core.model", frozenset(), r"[\"']__consumer_offsets[\"']"),
    "has the JSON of commit states": (COMMIT, frozenset(), r"MarkState\[|\.digest\.hex\(\)|fromhex\(.*digest"),
    "reads YAML, and JSON with places": (
        "core.yaml_json",
        frozenset(
            {"yaml.composer", "yaml.constructor", "yaml.events", "yaml.loader", "yaml.nodes", "yaml.parser",
             "yaml.scanner", "msgspec.yaml", "ruamel", "ruyaml", "strictyaml", "oyaml", "jsonc", "json5",
             "json.decoder", "json.scanner"}
        ),
        r"\b(?:msgspec\.yaml|yaml\.(?:(?:(?:safe|full|unsafe)_)?load(?:_all)?|compose|parse|scan)|raw_decode|JSONDecoder"
        r"|C?(?:Base|Safe|Full|Unsafe)Loader|object_pairs_hook)\b",
    ),
    "lays out tables": (REPORT, frozenset({"tabulate", "prettytable", "rich.table"}), r"\btext_table\b"),
}  # fmt: skip
DOES_IT_TOO = frozenset(
    {
        ("streams.model.pathways", "reads varints"),  # at most 9 bytes, the ninth of eight bits: another format
        ("core.text", "lays out tables"),  # the cells of a table are text
        ("adapters.", "measures time"),  # they stand below the clock
        ("registry.", "measures time"),  # limits of requests, in the server's loop and its clients
        ("cli.root", "measures time"),
        ("__main__", "measures time"),  # before anything is imported
        ("streams.client.producer", "measures time"),  # in the loop of an application
        ("kafkakit_spark.runner", "measures time"),  # of the Spark driver
        ("cli.root", "ends services"),  # a signal that no service's own work was stopped by
        ("execution.act.leases", "changes settings"),  # asks whether the lease is held, and hands on
        ("adapters.host", "waits"),  # the clock of the system
        ("adapters.metrics_services", "waits"),  # hands the pause between attempts in as an argument
    }
)


def reexports(root: Path) -> list[str]:
    """Modules that only hand on what others define."""
    found = []
    for module in modules_of(root).values():
        if module.below.rpartition(".")[2] in API or module.path.name == "__init__.py":
            continue
        body = [node for node in module.tree.body if not is_docstring(node) and not is_all(node)]
        if body and all(isinstance(node, ast.ImportFrom) and is_own(node, root.name) for node in body):
            found.append(f"{module.name}: only re-exports")
    return found


def command_faults(root: Path) -> list[str]:
    """Commands that name signals, threads, sockets or processes, which belong below them."""
    found = []
    for module in modules_of(root).values():
        if "commands" in module.below.split("."):
            names = {top(name) for name in module.imports}
            found += [f"{module.name}: imports {name}" for name in sorted(names & NOT_IN_COMMANDS)]
    return found


def untyped_options(root: Path) -> list[str]:
    """Options that travel without a type."""
    found = []
    for module in modules_of(root).values():
        found += [
            f"{module.name}: calls locals() in line {node.lineno}"
            for node in module.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals"
        ]
        if module.layer == "commands" and module.below.partition(".")[0] != "cli":
            for match in re.finditer(r"(?:Mapping|dict)\[str, (?:Any|object)\]", module.text):
                line = module.text.count("\n", 0, match.start()) + 1
                if is_parameter(module.nodes, line):
                    found.append(f"{module.name}: takes {match[0]} in line {line}")
    return sorted(found)


def is_parameter(nodes: Iterable[ast.AST], line: int) -> bool:
    return any(
        isinstance(node, ast.arg) and node.annotation is not None and node.lineno <= line <= (node.end_lineno or 0)
        for node in nodes
    )


def repeated_classes(root: Path) -> list[str]:
    """Public classes whose name stands twice in the package or in `spark/`."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in all_modules(root):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.name)
    return sorted(f"{name}: stands in {', '.join(sorted(where))}" for name, where in places.items() if len(where) > 1)


def bare_participles(root: Path) -> list[str]:
    """Modules, classes and functions at module level whose name is one participle and nothing else."""
    found = []
    for module in all_modules(root):
        defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        names = [(node.name, f" in line {node.lineno}") for node in module.tree.body if isinstance(node, defined)]
        for name, where in [(module.name.rpartition(".")[2], ""), *names]:
            # One word: a class has no second capital, a function no underscore inside.
            word = name.strip("_").lower() if re.fullmatch(r"_*[A-Za-z][a-z0-9]*", name) else ""
            if word in PARTICIPLES or (re.fullmatch(r"[a-z]+ed", word) and word not in NO_PARTICIPLES):
                found.append(f"{module.name}: {name}{where} is a participle; say what it is, or what it does")
    return sorted(found)


def untyped_arrays(root: Path) -> list[str]:
    """Aliases that call an array `Any`."""
    found = []
    for module in modules_of(root).values():
        for node in module.tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Name) and value.id == "Any":
                found.append(f"{module.name}: names Any in line {node.lineno}")
    return found


def copied_fields(root: Path) -> list[str]:
    """Calls that copy five fields or more of one value into another, where there are more than `MOST_COPIES`."""
    found = [
        f"{module.name}: {called(node)} copies {count} fields of {name} in line {node.lineno}"
        for module in all_modules(root)
        for node in module.nodes
        if isinstance(node, ast.Call) and called(node)[:1].isupper()
        for name, count in _copied(node).items()
        if count >= 5
    ]
    return sorted(found) if len(found) > MOST_COPIES else []


def _copied(call: ast.Call) -> Mapping[str, int]:
    values = ((each.arg, each.value) for each in call.keywords)
    return Counter(
        ast.unparse(value.value) for name, value in values if isinstance(value, ast.Attribute) and value.attr == name
    )


def rule_readers(root: Path) -> list[str]:
    """Modules that read what a rule of groups demands, but `placement/group...` and those that put it on record."""
    found: set[str] = set()
    for module in modules_of(root).values():
        if module.below.startswith("placement.group"):
            continue
        calls = (node for node in module.nodes if isinstance(node, ast.Call) and called(node) in RECORDS)
        recorded = {id(keyword.value) for call in calls for keyword in call.keywords}
        for node in module.nodes:
            if not isinstance(node, ast.Attribute) or node.attr not in DEMANDS or id(node) in recorded:
                continue
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name == "rule":
                found.add(f"{module.name}: interprets the rule of groups")
    return sorted(found)


def second_mechanisms(root: Path) -> list[str]:
    """Modules that begin to do what another one does for all."""
    return [
        f"{module.name}: {job}, as {place} does for all: {sign}"
        for job, (place, _, _) in ONE_MODULE.items()
        for module in all_modules(root)
        if module.below != place and not does_it_too(module.below, job)
        for sign in signs_of(job, module)
    ]


def does_it_too(below: str, job: str) -> bool:
    """Whether a module is named for a job in `DOES_IT_TOO`, or its package, with a dot behind it."""
    return any(
        below == name or (name[-1:] == "." and below.startswith(name)) for name, known in DOES_IT_TOO if known == job
    )


def signs_of(job: str, module: Module) -> list[str]:
    """What a module imports or holds that shows that it does the job."""
    _, libraries, pattern = ONE_MODULE[job]
    names = {name for name in module.imports for library in libraries if f"{name}.".startswith(f"{library}.")}
    return [*sorted(names), *(match[0] for match in re.finditer(pattern, module.text))]


def text_by_hand(root: Path) -> list[str]:
    """Line ends in functions that make sections, and in what a report gets as sections: `report` ends lines."""
    found = set()
    for module in modules_of(root).values():
        for node in module.nodes:
            if module.below == REPORT or not (makers := list(_makers(node))):
                continue
            for text in (text for maker in makers for text in _texts(maker)):
                if "\n" in str(text.value):
                    found.add(f"{module.name}: ends a line of a report in line {text.lineno}")
    return sorted(found)


def _makers(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        if SECTIONS & {part.id for part in ast.walk(node.returns) if isinstance(part, ast.Name)}:
            yield from node.body[1:] if is_docstring(node.body[0]) else node.body
    elif isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "sections")


def _texts(node: ast.AST) -> Iterator[ast.Constant]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    elif not (isinstance(node, ast.Call) and called(node) in WHOLE_TEXTS):
        for below in ast.iter_child_nodes(node):
            yield from _texts(below)


def called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_own(node: ast.ImportFrom, package: str) -> bool:
    return (node.module or "").partition(".")[0] == package


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"


def dialect_faults(root: Path) -> list[str]:
    """Modules that make two dialects, that import one, that name one, or that compare a dialect with a constant."""
    modules = modules_of(root)
    names: set[str] = set()
    makers: set[str] = set()
    found: list[str] = []
    for module in modules.values():
        made = [call for call in calls_at_top(module) if getattr(call.func, "id", "") == DIALECT_CLASS]
        if module.below.startswith(DIALECT_FOLDERS) and made:
            makers.add(module.name)
            names |= {name for call in made for name in name_of(call, module, modules)}
        if len(made) > 1:
            found.append(f"{module.name}: makes {len(made)} dialects")
    for module in modules.values():
        if not module.below.startswith(DIALECT_FOLDERS):
            found += [f"{module.name}: imports the dialect {maker}" for maker in sorted(makers & module.imports)]
        if module.below.startswith("streams.") and not module.below.startswith(DIALECT_LIBRARIES):
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
