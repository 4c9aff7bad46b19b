"""Reads an OCI layout, every digest and size looked at, and runs a program in what its layers make."""

import gzip
import json
import subprocess
import tarfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.rigs.clean_root import ISOLATED
from tests.rigs.required import missing

_MEDIA = "application/vnd.oci.image."
# The root is mounted read-only, with /tmp and what the kernel shows; then the user becomes the image's.
_ENTER = """
root=$1; user=$2; shift 2
mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"
mount -t tmpfs none "$root/tmp"; mount --rbind /proc "$root/proc"; mount -t tmpfs none "$root/dev"
touch "$root/dev/null"; mount --bind /dev/null "$root/dev/null"
[ -z "$FILES" ] || mount --bind "$FILES" "$root/var/lib/kafkakit"
exec unshare --user --map-user="$user" --map-group="$user" --root="$root" --wd=/tmp "$@"
"""


def blob_of(layout: Path, descriptor: Any) -> bytes:
    """The content of a blob, which is that of its digest."""
    algorithm, _, digest = descriptor["digest"].partition(":")
    content = Path(layout, "blobs", algorithm, digest).read_bytes()
    assert algorithm == "sha256"
    assert (sha256(content).hexdigest(), len(content)) == (digest, descriptor["size"]), descriptor["mediaType"]
    return content


def layers_of(layout: Path) -> tuple[Any, list[bytes]]:
    """The configuration and the unpacked layers; what nothing names is not there."""
    assert json.loads((layout / "oci-layout").read_text("utf-8")) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads((layout / "index.json").read_text("utf-8"))["manifests"]
    manifest = json.loads(blob_of(layout, described))
    assert [each["mediaType"] for each in (described, manifest["config"])] == [
        f"{_MEDIA}manifest.v1+json",
        f"{_MEDIA}config.v1+json",
    ]
    config = json.loads(blob_of(layout, manifest["config"]))
    layers = []
    for descriptor in manifest["layers"]:
        assert descriptor["mediaType"] == f"{_MEDIA}layer.v1.tar+gzip"
        packed = blob_of(layout, descriptor)
        assert packed[4:8] == b"\0\0\0\0", "gzip has a time"
        layers.append(gzip.decompress(packed))
    assert [f"sha256:{sha256(layer).hexdigest()}" for layer in layers] == config["rootfs"]["diff_ids"]
    named = {each["digest"][7:] for each in (described, manifest["config"], *manifest["layers"])}
    assert named == {path.name for path in (layout / "blobs/sha256").iterdir()}
    return config, layers


def read_layout(layout: Path) -> tuple[Any, list[dict[str, tarfile.TarInfo]]]:
    """The configuration, and the members of each layer by name, in order."""
    config, layers = layers_of(layout)
    found = []
    for layer in layers:
        with tarfile.open(fileobj=BytesIO(layer)) as archive:
            members = {member.name: member for member in archive}
        assert list(members) == sorted(members, key=lambda name: name.split("/"))
        found.append(members)
    return config, found


def unpack_layout(layout: Path, root: Path) -> Any:
    """Unpack all layers into a folder; the configuration."""
    config, layers = layers_of(layout)
    root.mkdir()
    for layer in layers:
        with tarfile.open(fileobj=BytesIO(layer)) as archive:
            archive.extractall(root, filter="tar")
    return config


def start_in_image(root: Path, config: Any, *words: str, files: Path | None = None) -> "subprocess.Popen[str]":
    """Start the image's entry point as its user, with its root read-only; `files` is at /var/lib/kafkakit."""
    tried = subprocess.run([*ISOLATED, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        missing("netns", f"no user namespaces: {tried.stderr.strip()}")
    made = config["config"]
    user = made["User"].partition(":")[0]
    inside = ["sh", "-euc", _ENTER, "sh", str(root), user, *made["Entrypoint"], *words]
    variables = dict(each.split("=", 1) for each in made["Env"])
    return subprocess.Popen(
        [*ISOLATED, "--mount", "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"FILES={files or ''}", *inside],
        env=variables | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
