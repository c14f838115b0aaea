"""What every reader says of a file it cannot use, and of a value in it: one line, printable, of limited length."""

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from capeval_pipeline.errors import CapevalError

MESSAGE_CHARACTERS = 300
VALUE_CHARACTERS = 60
NAME_CHARACTERS = 70
PLACE_CHARACTERS = 120
"""Of a place: a line number, or a column whose name may be anything, line ends too."""


_ARE_TEXTS_HIDDEN: ContextVar[bool] = ContextVar("are_texts_hidden", default=False)


@contextmanager
def texts_hidden(are_hidden: bool) -> Iterator[None]:
    """Messages made inside tell what kind of value was found and not which: any text may be a prompt, also one that
    stands where an id, a score or a header belongs."""
    token = _ARE_TEXTS_HIDDEN.set(are_hidden)
    try:
        yield
    finally:
        _ARE_TEXTS_HIDDEN.reset(token)


class FileRefused(CapevalError):
    """A whole file cannot be used; `reason` is the code, `location` the place, `n_read` the records seen until then,
    `also` what else is wrong with it, so that it is mended once."""

    def __init__(self, reason: str, location: str, text: str, n_read: int = 0) -> None:
        super().__init__(text)
        self.also: tuple[FileRefused, ...] = ()
        self.reason = reason
        self.location = one_line(location, PLACE_CHARACTERS)
        self.n_read = n_read


def escaped(character: str) -> str:
    """A character that cannot be printed as \\xNN or \\uNNNN; a byte of a file name that is no UTF-8 as itself."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str, limit: int) -> str:
    """Text on one line, control characters escaped, cut to `limit` characters with an ellipsis."""
    plain = text[: 4 * limit]
    if not plain.isprintable():
        plain = "".join(
            character if character.isprintable() else " " if character.isspace() else escaped(character)
            for character in plain
        )
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


class _Short(reprlib.Repr):
    """A printer that stops early: a value may be huge, or small in the file and huge when printed (YAML anchors)."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 3, 2 * VALUE_CHARACTERS, VALUE_CHARACTERS, 200
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 12

    def repr_int(self, value: int, level: int) -> str:
        # Python prints no whole number of more than 4300 digits
        return (
            super().repr_int(value, level) if value.bit_length() < 10_000 else "a whole number of 3,000 or more digits"
        )


_SHORT = _Short()


def shown(value: object) -> str:
    """A value as messages show it: quoted text or JSON, at most VALUE_CHARACTERS characters; its kind where texts are
    hidden."""
    if _ARE_TEXTS_HIDDEN.get() and not isinstance(value, int | float | None):
        kind = "a text" if isinstance(value, str) else "an object" if isinstance(value, dict) else "a list"
        return f"{kind} (not shown)"
    if isinstance(value, str):
        text = repr(value[: 2 * VALUE_CHARACTERS])
    else:
        text = _SHORT.repr(value) if isinstance(value, list | tuple | dict | set | int) else str(value)
    return one_line(text.encode("utf-8", "backslashreplace").decode(), VALUE_CHARACTERS)


def listed(names: Iterable[str], limit: int, separator: str = ", ") -> str:
    """Names a file gives, in a row of at most `limit` characters; their number where texts are hidden, for the first
    row of a table without a header is a record."""
    names = list(names)
    return f"{len(names)} (not shown)" if _ARE_TEXTS_HIDDEN.get() else one_line(separator.join(names), limit)


def named(name: str) -> str:
    """One name a file gives, as a place shows it; a dash for it where texts are hidden."""
    return "…" if _ARE_TEXTS_HIDDEN.get() else name


def message(file: str, where: str, found: str, expected: str, advice: str = "") -> str:
    """`{file}: {where}: {found}; expected {expected}. {advice}` on one line of at most 300 characters.

    Names of files and places are cut where they are long, so that what is to be done is still there.
    """
    tail = f"; expected {expected}." + (f" {advice}" if advice else "")
    file, where = one_line(file, NAME_CHARACTERS), one_line(where, NAME_CHARACTERS)
    return one_line(f"{file}: {where}: {found}{tail}", MESSAGE_CHARACTERS)


def refusal(path: Path, reason: str, found: str, expected: str, advice: str = "", where: str = "file") -> FileRefused:
    """The error that refuses `path`, with the message all refusals share."""
    return FileRefused(reason, where, message(path.name, where, found, expected, advice))
