"""The code that executors get: a zip with the same bytes for the same code."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import kafkakit
from kafkakit.core.errors import OperationFailedError

PACKAGE = Path(kafkakit.__file__).parent
# In a checkout the job code lies beside the package; the wheel carries it inside.
CODE_FOLDERS = (PACKAGE / "spark_code", PACKAGE.parent / "spark")
SHARED = ("core", "rules", "streams/model")
_KEPT = frozenset({".py", ".json"})
_TIME = (1980, 1, 1, 0, 0, 0)


def code_folder() -> Path:
    """The folder of `spark/main.py` and `kafkakit_spark`."""
    for folder in CODE_FOLDERS:
        if (folder / "main.py").is_file():
            return folder
    raise OperationFailedError(f"{PACKAGE} comes without its Spark code", hint="install kafkakit again")


def write_code_zip(path: Path, *, whole_package: bool) -> None:
    """Write the zip; see `ports.SparkDrivers.write_code`."""
    files = dict(_job_files(), **_package_files(whole_package))
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
            for name in sorted(files):
                entry = zipfile.ZipInfo(name, _TIME)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                target.writestr(entry, files[name].read_bytes())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OperationFailedError(f"cannot write {path}: {error.strerror}") from None


def _job_files() -> dict[str, Path]:
    base = code_folder()
    return {str(path.relative_to(base)): path for path in _code_in(base / "kafkakit_spark")}


def _package_files(whole_package: bool) -> dict[str, Path]:
    folders = [PACKAGE] if whole_package else [PACKAGE / name for name in SHARED]
    paths = [path for folder in folders for path in _code_in(folder) if CODE_FOLDERS[0] not in path.parents]
    paths += [PACKAGE / "__init__.py", PACKAGE / "streams" / "__init__.py"]
    return {str(path.relative_to(PACKAGE.parent)): path for path in paths}


def _code_in(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in _KEPT and path.is_file())
