"""Text from outside for terminals and logs: nothing in it moves a cursor or begins a line."""


def printable(text: str) -> str:
    """The text with everything that does not print, escapes of terminals above all, written as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def printable_lines(text: str) -> str:
    """A text of several lines made printable: line ends stay. Quick for what is printable already."""
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(printable(line) for line in text.split("\n"))


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
