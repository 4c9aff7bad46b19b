"""Shell completion of names; a completion never fails and never takes longer than a second."""


def complete_profile_names(incomplete: str) -> list[str]:
    """Profile names that begin with what is typed."""
    try:
        from kafkakit.settings import Given, open_files, read_environment

        names = open_files(Given(), read_environment(), lambda _: None).profile_names()
        return [name for name in names if name.startswith(incomplete)]
    except Exception:
        return []
