"""The picture of packages and arrows in `docs/development.md`, drawn from the imports.

Packages stand in groups, from the command line down to the values. An arrow leads from a group to each that it imports,
but to none that another way leads to. Behind a package stand its lines and its modules, rounded; the picture in the
document is up to date as long as they are right within a tenth.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.layers import LIBRARIES, owner_of
from tests.architecture.package import SPARK_JOBS, Module, all_modules, modules_of, top

BEGIN, END = "<!-- picture: begin (make docs) -->", "<!-- picture: end -->"
# From top to bottom; libraries that no group names are among the pure ones, other packages are tools.
GROUPS = (
    "command line", "wiring", "tools", "execution", "reading settings", "adapters", "ports", "settings",
    "pure libraries", "Spark jobs", "core",
)  # fmt: skip
GROUP_OF = {
    "": "command line",
    "__main__": "command line",
    "cli": "command line",
    "wiring": "wiring",
    "execution": "execution",
    "config.read": "reading settings",
    "config": "settings",
    "adapters": "adapters",
    "ports": "ports",
    "core": "core",
}
NOTES = {"command line": "the commands of every tool", "wiring": "streams/client/connect.py"}
STREAMS = "streams."
PER_LINE = 4
LINES_STEP, MODULES_STEP = 100, 5
FIGURES = re.compile(r"([\d,]+)/(\d+)")


def picture(root: Path) -> str:
    """The picture as a Mermaid flowchart in Markdown; the same for the same tree."""
    drawn = ["```mermaid", "flowchart TB"]
    packages = packages_of(root)
    for group in GROUPS:
        names = sorted(packages[group])
        rows = [
            ", ".join(f"{shown(name)} {figures(packages[group][name])}" for name in part)
            for kind in (False, True)
            for part in parts_of([name for name in names if name.startswith(STREAMS) is kind and name])
        ]
        rows += [NOTES[group]] if group in NOTES else []
        drawn.append(f'  {identifier(group)}["<b>{group}</b><br>{"<br>".join(rows)}"]')
    arrows = nearest(imports_between_groups(root))
    drawn += [
        f"  {identifier(group)} --> {' & '.join(identifier(other) for other in GROUPS if other in arrows[group])}"
        for group in GROUPS
        if arrows[group]
    ]
    return "\n".join((*drawn, "```"))


def packages_of(root: Path) -> Mapping[str, Mapping[str, list[Module]]]:
    """The modules of each package, by group."""
    found: dict[str, dict[str, list[Module]]] = defaultdict(lambda: defaultdict(list))
    for module in all_modules(root):
        package = package_of(module, root)
        found[group_of_package(package)][package].append(module)
    return found


def package_of(module: Module, root: Path) -> str:
    return owner_of(module.below) if top(module.name) == root.name else SPARK_JOBS


def group_of_package(package: str) -> str:
    if package == SPARK_JOBS:
        return "Spark jobs"
    return GROUP_OF.get(package) or ("pure libraries" if package in LIBRARIES else "tools")


def group_of(module: Module, root: Path) -> str:
    """Where a module's imports count: commands of tools belong to the command line, what composes to the wiring."""
    group = group_of_package(package_of(module, root))
    if module.layer == "wiring":
        return "wiring"
    return "command line" if group == "tools" and module.layer == "commands" else group


def imports_between_groups(root: Path) -> Mapping[str, set[str]]:
    modules = modules_of(root)
    found: dict[str, set[str]] = {group: set() for group in GROUPS}
    for module in all_modules(root):
        for name in module.imports & modules.keys():
            if modules[name].text.strip() and modules[name].below:
                found[group_of(module, root)].add(group_of(modules[name], root))
    return {group: others - {group} for group, others in found.items()}


def nearest(arrows: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """Each group with the groups that it imports and that no other way leads to."""
    behind = {group: set(reached(group, arrows)) for group in arrows}
    return {
        group: {one for one in others if not any(one in behind[other] for other in others - {one})}
        for group, others in arrows.items()
    }


def reached(group: str, arrows: Mapping[str, set[str]]) -> Iterator[str]:
    queue, seen = sorted(arrows[group]), set[str]()
    while queue:
        one = queue.pop()
        if one == group:
            raise ValueError(f"{group} imports itself through other groups")
        if one not in seen:
            seen.add(one)
            yield one
            queue += sorted(arrows[one])


def parts_of(names: list[str]) -> list[list[str]]:
    return [names[start : start + PER_LINE] for start in range(0, len(names), PER_LINE)]


def shown(package: str) -> str:
    return f"{package}.py" if package in ("__main__", "wiring") else package.replace(".", "/")


def identifier(group: str) -> str:
    return group.replace(" ", "_").lower()


def figures(modules: list[Module]) -> str:
    lines = max(LINES_STEP, round(sum(module.lines for module in modules) / LINES_STEP) * LINES_STEP)
    number = len(modules) if len(modules) < 2 * MODULES_STEP else round(len(modules) / MODULES_STEP) * MODULES_STEP
    return f"{lines:,}/{number}"


def is_up_to_date(document: str, drawn: str) -> bool:
    """True when the document has this picture, with figures that differ by a tenth at most, or by a step."""
    _, _, rest = document.partition(BEGIN)
    written = rest.partition(END)[0].strip()
    if FIGURES.sub("", written) != FIGURES.sub("", drawn):
        return False
    pairs = zip(FIGURES.findall(written), FIGURES.findall(drawn), strict=True)
    return all(
        abs(number_of(one) - number_of(other)) <= max(step, number_of(other) / 10)
        for before, now in pairs
        for one, other, step in zip(before, now, (2 * LINES_STEP, MODULES_STEP), strict=True)
    )


def number_of(text: str) -> int:
    return int(text.replace(",", ""))


def with_picture(document: str, drawn: str) -> str:
    """The document with the picture between its marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{drawn}\n{END}{after}"
