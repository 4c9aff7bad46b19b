"""The file of lane rules: a list, the first rule that matches decides.

- lane: slow
  where: tenant = "imports" and bytes > 100kB
"""

from kafkakit.config.keys import did_you_mean
from kafkakit.config.yaml_text import yaml_items, yaml_list, yaml_place, yaml_root, yaml_scalar
from kafkakit.core.errors import InputError
from kafkakit.streams.model.route import LaneRule

LIMIT_BYTES = 1 << 20
MAX_RULES = 100
_KEYS = ("lane", "where")


def read_rules(data: bytes, source: str) -> tuple[LaneRule, ...]:
    """The rules of a file; raises `InputError` with the line."""
    root = yaml_root(data, source)
    nodes = yaml_list(root)
    if not nodes or len(nodes) > MAX_RULES:
        raise InputError(source, f"holds {len(nodes)} rules, 1 to {MAX_RULES} are read")
    found = []
    for node in nodes:
        texts: dict[str, str] = {}
        for key, line, child in yaml_items(node, source, "a rule"):
            if key not in _KEYS:
                hint = f"known keys are {', '.join(_KEYS)}"
                raise InputError(f"{source}:{line}", f"unknown key {key!r:.60}{did_you_mean(key, _KEYS)}", hint=hint)
            texts[key] = yaml_scalar(child, source, key)
        if len(texts) < len(_KEYS):
            raise InputError(yaml_place(source, node), "a rule has a lane and a query: lane: NAME, where: QUERY")
        found.append(LaneRule(lane=texts["lane"], where=texts["where"]))
    return tuple(found)
