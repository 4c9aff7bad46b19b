"""How others reach a sandbox: its profile file and its shell lines."""

import json
from collections.abc import Mapping

from kafkakit.sandbox.decide.credentials import CLIENT_USERS, client_security, password_file
from kafkakit.sandbox.decide.spec import Mode, Secure
from kafkakit.sandbox.decide.state import SandboxState

Tree = Mapping[str, "str | Tree"]


def profile_name(sandbox: str, user: str) -> str:
    """The profile of the sandbox itself is the administrator's; other users have a suffix."""
    return sandbox if user == CLIENT_USERS[0] else f"{sandbox}-{user}"


def sandbox_profiles(sandbox: str) -> tuple[str, ...]:
    """Every profile that a sandbox may have written."""
    return tuple(profile_name(sandbox, user) for user in CLIENT_USERS)


def profile_users(secure: Secure) -> tuple[str, ...]:
    """Who gets a profile: a user without rights exists only where there are rights."""
    return CLIENT_USERS[:1] if secure is Secure.NONE else CLIENT_USERS


def profile_tree(state: SandboxState, root: str, user: str) -> dict[str, "str | Tree"]:
    """The profile as nested mappings; a password is named by its file, never written."""
    tree: dict[str, str | Tree] = {
        "bootstrap_server": state.layout.bootstrap_servers,
        "cluster_id": state.cluster_id,
    }
    if state.spec.mode is Mode.ZOOKEEPER:
        tree["zookeeper"] = {"addr": state.layout.keeper.address}
    if state.spec.secure is not Secure.NONE:
        security = client_security(state.spec.secure, root, user, None)
        block: dict[str, str | Tree] = {"protocol": str(security.protocol)}
        tls = {"ca_file": security.ca_file, "cert_file": security.cert_file, "key_file": security.key_file}
        if security.protocol.uses_tls:
            block["tls"] = {key: value for key, value in tls.items() if value}
        if security.protocol.uses_sasl:
            block["sasl"] = {
                "mechanism": str(security.sasl_mechanism),
                "username": user,
                "password_file": password_file(root, user),
            }
        tree["security"] = block
    return tree


def profile_head(sandbox: str) -> str:
    """The first line of a profile file, by which a sandbox knows its own."""
    return f"# written by `kafkakit sandbox up --name {sandbox}`, removed by `kafkakit sandbox down --name {sandbox}`"


def render_profile(tree: Tree, sandbox: str) -> str:
    """YAML text: two-space indents and double-quoted strings (JSON strings are YAML strings)."""
    lines = [profile_head(sandbox)]
    _render(tree, 0, lines)
    return "\n".join(lines) + "\n"


def _render(tree: Tree, depth: int, lines: list[str]) -> None:
    for key, value in tree.items():
        if isinstance(value, str):
            lines.append(f"{'  ' * depth}{key}: {json.dumps(value)}")
        else:
            lines.append(f"{'  ' * depth}{key}:")
            _render(value, depth + 1, lines)


def environment(state: SandboxState) -> dict[str, str]:
    """Shell variables that point tools at the sandbox."""
    found = {"KAFKAKIT_PROFILE": state.spec.name, "BOOTSTRAP": state.layout.bootstrap_servers}
    if state.spec.mode is Mode.ZOOKEEPER:
        found["ZOOKEEPER"] = state.layout.keeper.address
    return found
