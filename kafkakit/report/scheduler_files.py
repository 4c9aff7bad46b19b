"""The files by which systemd and cron start a command: a service and its timer, and a line of a crontab."""

from collections.abc import Iterable, Mapping

from kafkakit.report.report import Report

_SERVICE = """\
[Unit]
Description={what}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c {script}
TimeoutStartSec={timeout}
{environment}# A user that may write to the places below, which must exist.
User=kafkakit
StateDirectory=kafkakit
Environment=XDG_STATE_HOME=/var/lib
{writes}NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
CapabilityBoundingSet=
UMask=0022
"""
_TIMER = """\
[Unit]
Description={what}

[Timer]
OnCalendar={when}
RandomizedDelaySec={delay}
Persistent=true

[Install]
WantedBy=timers.target
"""


def files_report(command: str, form: str, files: Mapping[str, str]) -> Report:
    """The files by name as a report; with several of them each begins with a comment that names it."""
    parts = [f"# {name}\n{text}" if len(files) > 1 else text for name, text in files.items()]
    return Report(
        command=command,
        data={"format": form, "files": dict(files)},
        text="\n".join(parts),
        columns=("file", "line"),
        rows=tuple((name, line) for name, text in files.items() for line in text.splitlines()),
    )


def service_text(what: str, script: str, places: Iterable[str], *, timeout: str, environment: str = "") -> str:
    """A service that runs `script` once; it may write to those `places` that are absolute paths.

    `environment` is the path of a file with variables, which may be missing.
    """
    local = dict.fromkeys(place for place in places if place.startswith("/"))
    return _SERVICE.format(
        what=what,
        script=systemd_word(script, dollars=True),
        timeout=timeout,
        environment=f"EnvironmentFile=-{environment}\n" if environment else "",
        writes="".join(f"ReadWritePaths={systemd_word(place)}\n" for place in local),
    )


def timer_text(what: str, when: str, *, delay: str) -> str:
    """The timer of the service with the same name; `when` as in systemd.time(7)."""
    return _TIMER.format(what=what, when=when, delay=delay)


def cron_line(when: str, script: str) -> str:
    """A line for a user's crontab; cron ends a command at a bare %, and has one line for it."""
    return f"{when} {script.replace('%', chr(92) + '%')}\n"


def folder_of(path: str) -> str:
    """The folder of a file with an absolute path."""
    return path.rpartition("/")[0] or "/"


def systemd_word(text: str, *, dollars: bool = False) -> str:
    """One word of a unit file in quotes: specifiers, escapes and, in command lines, variables are plain text in it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted.replace("$", "$$") if dollars else quoted}"'
