"""Words of command lines that are printed to be pasted."""

import shlex


def quote(word: str) -> str:
    """The word for a shell, on one line whatever is in it: what does not print goes into `$'...'`.

    That form is of POSIX 2024 and known to bash, zsh and ksh; elsewhere such names have to be typed.
    """
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_escaped(char) for char in word) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    return char if char.isprintable() else "".join(f"\\x{b:02x}" for b in char.encode("utf-8", "surrogatepass"))
