"""The file of limits: who owns which groups, and an ordered list of rules, the first of which that fits counts."""

from collections.abc import Mapping

from yaml.nodes import Node

from kafkakit.config.keys import did_you_mean
from kafkakit.config.yaml_text import yaml_items, yaml_list, yaml_place, yaml_root, yaml_scalar
from kafkakit.core.errors import InputError
from kafkakit.streams.lag.decide.views.limits import (
    LIMIT_KEYS,
    JudgedBound,
    LimitRule,
    LimitRules,
    option_of,
    parse_thresholds,
)

LIMIT_BYTES = 1 << 20
_TOP = ("owners", "rules")
_MATCHED = ("group", "topic", "owner")
_RULE = (*_MATCHED, *LIMIT_KEYS)
Owners = dict[str, tuple[str, ...]]


def read_limit_rules(data: bytes, source: str, words: Mapping[str, str | None], judge: JudgedBound) -> LimitRules:
    """The rules of a limits file; `words` are the limits (by `LIMIT_KEYS`) of what no rule fits.

    A limit that a rule does not name is that of `words`, too; `none` is no limit. Raises `InputError`, or `UsageError`
    for a limit that cannot be read, each with the line.
    """
    found = {name: (line, node) for name, line, node in yaml_items(yaml_root(data, source), source, "")}
    for name, (line, _) in found.items():
        _require_known(name, _TOP, f"{source}:{line}")
    if not found:
        raise InputError(source, "holds no limits", hint=_known(_TOP))
    owners = _owners(found["owners"][1], source) if "owners" in found else {}
    nodes = yaml_list(found["rules"][1]) if "rules" in found else []
    return LimitRules(
        default=parse_thresholds(words, judge, option_of),
        rules=tuple(_rule(node, source, words, judge, owners) for node in nodes),
        owners=owners,
    )


def _rule(node: Node, source: str, words: Mapping[str, str | None], judge: JudgedBound, owners: Owners) -> LimitRule:
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    for key, line, child in yaml_items(node, source, "a rule"):
        _require_known(key, _RULE, f"{source}:{line}")
        texts[key], lines[key] = yaml_scalar(child, source, key), line
    if not texts:
        raise InputError(yaml_place(source, node), "a rule is empty", hint=_known(_RULE))
    for key, text in texts.items():
        if not text.strip():
            raise InputError(f"{source}:{lines[key]}", f"{key} is empty", hint="none stands for no limit")
    owner = texts.get("owner", "")
    if owner and owner not in owners:
        known = ", ".join(owners) or "none"
        raise InputError(f"{source}:{lines['owner']}", f"no owner is called {owner!r:.60}", hint=f"owners: {known}")

    def named(key: str) -> str:
        return f"{source}:{lines[key]}: {key}" if key in lines else option_of(key)

    own = {key: None if texts[key] == "none" else texts[key] for key in LIMIT_KEYS if key in texts}
    matched = {key: texts[key] for key in _MATCHED if key in texts}
    return LimitRule(thresholds=parse_thresholds({**words, **own}, judge, named), **matched)


def _owners(node: Node, source: str) -> Owners:
    owners: Owners = {}
    for name, line, child in yaml_items(node, source, "owners"):
        globs = tuple(yaml_scalar(item, source, f"owner {name:.60}") for item in yaml_list(child))
        if not globs or not all(glob.strip() for glob in globs):
            raise InputError(f"{source}:{line}", f"owner {name:.60} names no group", hint="give globs of group names")
        owners[name] = globs
    return owners


def _require_known(key: str, known: tuple[str, ...], place: str) -> None:
    if key not in known:
        raise InputError(place, f"unknown key {key!r:.60}{did_you_mean(key, known)}", hint=_known(known))


def _known(keys: tuple[str, ...]) -> str:
    return f"known keys are {', '.join(keys)}"
