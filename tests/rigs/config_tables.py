"""Makes the configuration tables of `kafkakit/rules/tables` from the `ConfigDef`s of Kafka's own jars.

Also the keys of Connect's workers, of the connectors that come with Kafka, MirrorMaker's among them, and of clients.

    make config-tables

A JDK runs `DumpConfigDefs.java` on the jars of each version (fetched once, by the sandbox's cache); what it prints is
turned into one line a key, so that two versions, or two runs, compare as text. Tests compare the tables with brokers.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkakit.adapters.jars import JarCache
from kafkakit.rules.config_defs import MINORS
from tests.places import ROOT

# The newest patch of each minor version that the registry had when the tables were made.
PATCHES = {
    "2.8": "2.8.2",
    "3.0": "3.0.2",
    "3.3": "3.3.2",
    "3.5": "3.5.2",
    "3.6": "3.6.2",
    "3.7": "3.7.2",
    "3.8": "3.8.1",
    "3.9": "3.9.2",
    "4.0": "4.0.2",
    "4.1": "4.1.2",
    "4.2": "4.2.2",
    "4.3": "4.3.1",
    "4.4": "4.4.0",
}
TABLES = ROOT / "kafkakit" / "rules" / "tables"
CONNECT_VERSION = "4.3.1"
"""The newest of which the registry had the connectors too when the table was made."""
_CONNECT_JARS = ("connect-mirror", "connect-file")
_CONNECT_CLASSES = (
    "org.apache.kafka.connect.runtime.distributed.DistributedConfig",
    "org.apache.kafka.connect.runtime.standalone.StandaloneConfig",
    "org.apache.kafka.connect.runtime.SourceConnectorConfig",
    "org.apache.kafka.connect.runtime.SinkConnectorConfig",
    "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    "org.apache.kafka.clients.producer.ProducerConfig",
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
)
_DUMPER = Path(__file__).with_name("DumpConfigDefs.java")
_DEPRECATED = re.compile(
    r"^(\[DEPRECATED\]|DEPRECATED:|Deprecated\.)|This config(uration)? (is|has been) deprecated", re.IGNORECASE
)
_RULES = {
    "NonEmptyString": "non-empty",
    "NonNullValidator": "non-null",
    "ThrottledReplicaListValidator": "throttled-replicas",
    "ControllerQuorumVotersValidator": "quorum-voters",
    "ControllerQuorumBootstrapServersValidator": "quorum-bootstrap-servers",
}


def dumped(version: str, cache: Path) -> dict[str, Any]:
    """What the `ConfigDef`s of a Kafka version say, raw; takes about 2 s, and 20 s more to download the jars once."""
    return _ran(JarCache(cache).class_path(version, print))


def dumped_connect(cache: Path) -> dict[str, Any]:
    """What the `ConfigDef`s of Connect say, by class, raw."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=cache / "jars")
    wanted = [context.create_dependency(f"org.apache.kafka:{name}:{CONNECT_VERSION}") for name in _CONNECT_JARS]
    inputs, transitive = context.resolver.resolve(wanted)
    jars = [str(d.artifact.resolve()) for d in (*inputs, *transitive) if d.scope not in ("test", "provided")]
    return _ran(jars, *_CONNECT_CLASSES)


def _ran(jars: Sequence[str], *arguments: str) -> dict[str, Any]:
    java = shutil.which("java", path=_jdk_path())
    if java is None:
        sys.exit("error: no java on the PATH; a JDK 17 or newer is needed (set JAVA_HOME)")
    quick = ("-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    ran = subprocess.run(
        [java, *quick, "-cp", os.pathsep.join(jars), str(_DUMPER), *arguments],
        capture_output=True,
        check=False,
        timeout=120,
    )
    if ran.returncode != 0:
        sys.exit(f"error: {java} cannot run {_DUMPER.name} (a JDK is needed): {ran.stderr.decode()[-500:]}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def table_text(minor: str, raw: Mapping[str, Any]) -> str:
    """The table of a minor version as JSON, one line a key, sorted."""
    modes, synonyms = raw["update_modes"], raw["synonyms"]
    static = {key["name"] for key in raw["broker"]}
    only_dynamic = [key for key in raw["dynamic_broker"] if key["name"] not in static]
    topic = [_entry(key) | _part("synonyms", synonyms.get(key["name"])) for key in raw["topic"]]
    broker = [_entry(key) | _part("update_mode", modes.get(key["name"])) for key in raw["broker"]]
    for key in only_dynamic:
        # Up to 4.2 the modes leave these out; both scopes take them, as since 4.3.
        entry = _entry(key)
        broker.append(entry | {"update_mode": "cluster-wide", "rules": [*entry.get("rules", ()), "dynamic-only"]})
    lines = [f'{{"version":{json.dumps(PATCHES[minor])}']
    for scope, entries in (("topic", topic), ("broker", broker)):
        keys = sorted(entries, key=lambda entry: str(entry["name"]))
        lines.append(f',"{scope}":[\n' + ",\n".join(json.dumps(key, separators=(",", ":")) for key in keys) + "\n]")
    return "".join(lines) + "}\n"


def connect_text(raw: Mapping[str, Any]) -> str:
    """The keys of Connect as JSON, one line a class; the names of classes without their package."""
    keys = {name.rpartition(".")[2]: sorted(key["name"] for key in found) for name, found in raw.items()}
    lines = [f"{json.dumps(name)}:{json.dumps(names, separators=(',', ':'))}" for name, names in keys.items()]
    return f'{{"version":{json.dumps(CONNECT_VERSION)},"keys":{{\n' + ",\n".join(lines) + "\n}}\n"


def _entry(key: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": key["name"], "type": key["type"]}
    if key["default"] is not None:
        entry["default"] = key["default"]
    entry |= _checks(key["validator"] or {}, required=not key["has_default"])
    entry |= _part("deprecated", bool(_DEPRECATED.search(key["documentation"])))
    return entry | _part("internal", key["internal"])


def _checks(validator: Mapping[str, Any], required: bool) -> dict[str, Any]:
    kind, text = validator.get("class", "").removesuffix("$"), validator.get("text", "")  # a Scala object's name
    rules = ["required"] if required else []
    found: dict[str, Any] = {}
    if kind == "Range":
        found = {
            name: validator[field]
            for name, field in (("minimum", "min"), ("maximum", "max"))
            if validator[field] is not None
        }
    elif kind in ("ValidString", "CaseInsensitiveValidString"):
        found["one_of"] = validator["validStrings"]
        rules += ["any-case"] if kind.startswith("Case") else []
    elif kind == "ValidList":
        found |= _part("one_of", validator["validString"]["validStrings"])
        if "isEmptyAllowed" in validator:  # since 4.2 (KIP-1161)
            rules += ["no-duplicates"] + ([] if validator["isEmptyAllowed"] else ["non-empty-list"])
    elif kind in ("MetadataVersionValidator", "ApiVersionValidator"):  # the latter up to 3.2
        found["one_of"] = text.strip("[]").split(", ")
        rules.append("metadata-version")
    elif kind in _RULES:
        rules.append(_RULES[kind])
    elif text == "[1,...,9] or -1":
        found = {"minimum": 1, "maximum": 9}
        rules.append("or-minus-one")
    elif text.startswith("The default value of -1 means"):
        found = {"minimum": 1}
        rules.append("or-minus-one")
    elif kind:
        sys.exit(f"error: unknown validator {kind}: {text}")
    return found | _part("rules", rules)


def _part(name: str, value: object) -> dict[str, Any]:
    return {name: value} if value else {}


def _jdk_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.pathsep.join(([str(Path(home) / "bin")] if home else []) + [os.environ.get("PATH", "")])


def main() -> None:
    """Write the table of every minor version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit"
    TABLES.mkdir(exist_ok=True)
    for minor in MINORS:
        text = table_text(minor, dumped(PATCHES[minor], cache))
        (TABLES / f"kafka-{minor}.json").write_text(text, encoding="utf-8")
        print(f"kafka-{minor}.json: {text.count(chr(10)) - 2} keys of Kafka {PATCHES[minor]}")
    text = connect_text(dumped_connect(cache))
    (TABLES / "connect.json").write_text(text, encoding="utf-8")
    print(f"connect.json: keys of {text.count(chr(10)) - 2} classes of Kafka {CONNECT_VERSION}")


if __name__ == "__main__":
    main()
