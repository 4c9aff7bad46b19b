"""Run Kafka's own tools against a sandbox, from the jars that it runs on."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from kafkakit.config.security import Security
from kafkakit.core.errors import UsageError
from kafkakit.ports.acting import Reporter
from kafkakit.ports.machine import Machine
from kafkakit.sandbox.decide import jvm
from kafkakit.sandbox.decide.credentials import ADMIN, secrets_folder
from kafkakit.sandbox.decide.tools import KafkaTool, client_properties, filled_arguments, find_tool
from kafkakit.sandbox.folders import Store
from kafkakit.sandbox.lifecycle import admin_security, loaded


def run_tool(machine: Machine, store: Store, words: Sequence[str], reporter: Reporter) -> NoReturn:
    """Become the tool that `words` begins with: its exit code, input and output are those of this process.

    The first tool of a Kafka version downloads its jar, which the brokers do not need.
    """
    name, *given = words
    state = loaded(store)
    tool = find_tool(name, state.spec.kafka)
    servers, security = state.layout.bootstrap_servers, admin_security(state, store)
    properties = f"{secrets_folder(str(store.root))}/{ADMIN}.properties"
    store.make_folder(secrets_folder(str(store.root)))
    store.write(properties, client_properties(servers, security, _key_pair(store, security)))
    class_path = machine.jars.class_path(state.spec.kafka, reporter.say, tools=True)
    arguments = f"{store.root}/{name.removesuffix('.sh')}.args"
    store.write(arguments, jvm.tool_arguments(_main_class(name, tool, class_path), class_path))
    machine.processes.become((state.java, f"@{arguments}", *filled_arguments(tool, given, servers, properties)))


def _key_pair(store: Store, security: Security) -> str:
    """The file with key and certificate of the client, which Java wants in one; none where it has none."""
    if security.cert_file is None or security.key_file is None:
        return ""
    both = f"{secrets_folder(str(store.root))}/{ADMIN}.keystore.pem"
    store.write(both, store.read_text(security.key_file) + store.read_text(security.cert_file))
    return both


def _main_class(name: str, tool: KafkaTool, class_path: Sequence[str]) -> str:
    """The class of the tool that the jars have; `UsageError` where this Kafka has no such tool."""
    jars = [jar for jar in class_path if Path(jar).name.startswith(("kafka-tools-", "kafka_2.13-"))]
    entries = {entry for jar in jars for entry in zipfile.ZipFile(jar).namelist()}
    for candidate in tool.classes:
        if f"{candidate.replace('.', '/')}.class" in entries:
            return candidate
    raise UsageError(f"this Kafka has no {name}")
