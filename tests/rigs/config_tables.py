"""Makes the configuration tables of `kafkakit/rules/tables` from the `ConfigDef`s of Kafka's own jars.

Also the keys of Connect's workers, of the connectors that come with Kafka, MirrorMaker's among them, and of clients.

    make config-tables

A JDK runs `DumpConfigDefs.java` on the jars of each version (fetched once, by the sandbox's cache); what it prints is
turned into one line a key, so that two versions, or two runs, compare as text. Tests compare the tables with brokers.
"""

import base64
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
DEBEZIUM_VERSION = "3.6.1.Final"
DEBEZIUM = {
    "io.debezium.connector.postgresql.PostgresConnector": "debezium-connector-postgres",
    "io.debezium.connector.mysql.MySqlConnector": "debezium-connector-mysql",
    "io.debezium.connector.sqlserver.SqlServerConnector": "debezium-connector-sqlserver",
    "io.debezium.connector.mongodb.MongoDbConnector": "debezium-connector-mongodb",
}
"""The connectors of Debezium whose jars the registry has, by class."""
COMPLETE = {
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.user": "u",
    "database.password": "p",
    "database.dbname": "shop",
    "database.names": "shop",
    "database.server.id": "1",
    "schema.history.internal.kafka.topic": "history",
    "schema.history.internal.kafka.bootstrap.servers": "k:9092",
    "mongodb.connection.string": "mongodb://db/?replicaSet=rs",
}
"""What the connectors of Debezium ask for, in all."""
_NO_LEAST = -(2**63)
_WORDS = re.compile(r"Value must be one of ([^\]]*)")
_CHECKER = Path(__file__).with_name("CheckConnectors.java")
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
    return _ran(
        _resolved(cache, *(f"org.apache.kafka:{name}:{CONNECT_VERSION}" for name in _CONNECT_JARS)), *_CONNECT_CLASSES
    )


def dumped_debezium(cache: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The keys of each connector of Debezium, by class, with the words or the least number that it takes for them."""
    found = {}
    for name in DEBEZIUM:
        jars = debezium_jars(name, cache)
        keys = {str(key["name"]): str(key["type"]) for key in _ran(jars, name)[name]}
        tried = [(key, value) for key in sorted(keys) for value in _probes(keys[key])]
        answers = asked(jars, [(name, {**COMPLETE, key: value}) for key, value in tried])
        refused = {probe: f" | {probe[0]}: " in answer for probe, answer in zip(tried, answers, strict=True)}
        words = {key: _WORDS.search(answer) for (key, _), answer in zip(tried, answers, strict=True)}
        entries = {key: _debezium_entry(key, keys[key], refused, words.get(key)) for key in sorted(keys)}
        told = [(key, word) for key, entry in entries.items() for word in entry.get("one_of", ())]
        answers = asked(jars, [(name, {**COMPLETE, key: word}) for key, word in told])
        for (key, word), answer in zip(told, answers, strict=True):
            if f" | {key}: " in answer:  # told as a word that is taken, and not taken any more
                entries[key]["one_of"].remove(word)
        found[name] = entries
    return found


def debezium_jars(name: str, cache: Path) -> list[str]:
    """The class path of a connector of Debezium."""
    return _resolved(cache, f"io.debezium:{DEBEZIUM[name]}:{DEBEZIUM_VERSION}")


def asked(jars: Sequence[str], cases: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """What connectors of Debezium, each named by its class, answer to configurations."""
    lines = [
        " ".join([name, *("_" + base64.b64encode(word.encode()).decode() for pair in config.items() for word in pair)])
        for name, config in cases
    ]
    return _java(jars, _CHECKER, input_=("\n".join(lines) + "\n").encode()).decode().splitlines()


def _probes(kind: str) -> tuple[str, ...]:
    return ("x", "-1", "0") if kind in ("int", "long", "short") else ("x",)


def _debezium_entry(
    key: str, kind: str, refused: Mapping[tuple[str, str], bool], words: re.Match[str] | None
) -> dict[str, Any]:
    if not refused[key, "x"]:
        return {}
    if kind in ("int", "long", "short"):
        return {"least": _NO_LEAST if not refused[key, "-1"] else 0 if not refused[key, "0"] else 1}
    if kind == "boolean":
        return {"one_of": ["false", "true"]}
    return {"one_of": sorted(words[1].partition(", The ")[0].split(", "))} if words is not None else {}


def _resolved(cache: Path, *coordinates: str) -> list[str]:
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=cache / "jars")
    inputs, transitive = context.resolver.resolve([context.create_dependency(wanted) for wanted in coordinates])
    return [str(d.artifact.resolve()) for d in (*inputs, *transitive) if d.scope not in ("test", "provided")]


def _ran(jars: Sequence[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_java(jars, _DUMPER, *arguments))
    return found


def _java(jars: Sequence[str], program: Path, *arguments: str, input_: bytes = b"") -> bytes:
    java = shutil.which("java", path=_jdk_path())
    if java is None:
        sys.exit("error: no java on the PATH; a JDK 17 or newer is needed (set JAVA_HOME)")
    quick = ("-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    ran = subprocess.run(
        [java, *quick, "-cp", os.pathsep.join(jars), str(program), *arguments],
        input=input_,
        capture_output=True,
        check=False,
        timeout=120,
    )
    if ran.returncode != 0:
        sys.exit(f"error: {java} cannot run {program.name} (a JDK is needed): {ran.stderr.decode()[-500:]}")
    return ran.stdout


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


def debezium_text(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The keys of Debezium's connectors as JSON, one line a key; the names of classes without their package."""
    parts = []
    for name, keys in found.items():
        lines = [f"{json.dumps(key)}:{json.dumps(entry, separators=(',', ':'))}" for key, entry in keys.items()]
        parts.append(f'"{name.rpartition(".")[2]}":{{\n' + ",\n".join(lines) + "\n}")
    return f'{{"version":"{DEBEZIUM_VERSION}","keys":{{\n' + ",\n".join(parts) + "\n}}\n"


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
    text = debezium_text(dumped_debezium(cache))
    (TABLES / "debezium.json").write_text(text, encoding="utf-8")
    print(f"debezium.json: keys of {len(DEBEZIUM)} connectors of Debezium {DEBEZIUM_VERSION}")


if __name__ == "__main__":
    main()
