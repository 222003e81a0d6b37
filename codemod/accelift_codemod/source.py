"""A script's bytes: decoded by the rules of the language, written back untouched outside the edits."""

from __future__ import annotations

import ast
import codecs
import io
import os
import re
import stat
import tokenize
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_RETURN = re.compile(r"\r(?!\n)")
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_WAIT = 2.0  # seconds for what writes into a pipe to begin
_MOST = 1 << 28  # bytes, more than a script has: a device may go on for ever
_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # which begins as UTF-16 does
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_PIECE = 1 << 16  # bytes, more than nearly all scripts have

Place = tuple[int, int | None]  # a line, and a column as in `ast`; None is its end


class BadSource(Exception):
    """A file that cannot be processed: one sentence with the place and the remedy."""

    def __init__(self, path: str, line: int, problem: str, remedy: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        self.remedy = remedy
        where = f"{path}:{line}" if line else path
        super().__init__(f"{where}: {problem}; {remedy}")


class Python2Source(BadSource):
    """A file in the syntax of Python 2."""


def read_bytes(path: str | Path) -> bytes:
    """A file's content.

    Raises:
        BadSource: it cannot be read.
    """
    try:
        file = os.open(path, _READ)  # for every file of a tree: fewer system calls than `open`
        try:
            regular = stat.S_ISREG(os.fstat(file).st_mode)
            begun = b"" if regular else _awaited(file, str(path))
            data = os.read(file, _PIECE)
            if regular and len(data) < _PIECE:
                return data
            pieces = [begun, data]
            size = len(data)
            while data := os.read(file, len(pieces) * _PIECE):  # a pipe gives what is there, and then more
                pieces.append(data)
                size += len(data)
                if size > _MOST:
                    raise BadSource(str(path), 0, f"has more than {_MOST >> 20} MB", "no script has; check the path")
            return b"".join(pieces)
        finally:
            os.close(file)
    except OSError as error:
        raise BadSource(
            str(path), 0, f"cannot be read ({error.strerror})", "check the path and its permissions"
        ) from None


def _awaited(file: int, path: str) -> bytes:
    """Wait until a pipe or a device has something to read; what was read of it meanwhile.

    Raises:
        BadSource: nothing writes into the pipe.
    """
    if not hasattr(os, "O_NONBLOCK"):  # on Windows
        return b""
    import select  # hardly any script is a pipe

    begun = b""
    if not select.select([file], [], [], _WAIT)[0]:
        with suppress(BlockingIOError):  # what writes takes its time
            begun = os.read(file, 1)
            if not begun:
                raise BadSource(path, 0, "is a pipe that nothing writes into", "start what writes into it first")
    os.set_blocking(file, True)
    return begun


def code_of(path: Path) -> bytes:
    """The code of a script, or of a notebook's cells.

    Raises:
        BadSource: it cannot be read, or is no notebook.
    """
    return Source.read(path).data if path.suffix == ".ipynb" else read_bytes(path)


@dataclass(frozen=True)
class Source:
    """A decoded script.

    `text` keeps the author's line endings; `lines` are the lines the Python tokenizer sees, so that
    `lines[node.lineno - 1]` is the line of an `ast` node.
    """

    path: str
    data: bytes
    text: str
    encoding: str

    @classmethod
    def read(cls, path: Path, name: str | None = None) -> Source:
        """Decode a file; of a notebook, its code cells as one script.

        Raises:
            BadSource: the file cannot be read, is empty, binary, or is not in its declared encoding.
        """
        if path.suffix == ".ipynb":
            from accelift_codemod.notebook import Notebook  # late: most files are none

            return Notebook(read_bytes(path), name or str(path)).source
        return cls.decode(read_bytes(path), name or str(path))

    @classmethod
    def decode(cls, data: bytes, path: str) -> Source:
        """Decode bytes the way Python would (PEP 263, byte order mark).

        Raises:
            BadSource: as in `read`.
        """
        if not data.strip():
            raise BadSource(path, 0, "is empty", "nothing to convert; check the path")
        if data[:200].lstrip()[:1] == b"{" and b'"nbformat"' in data and not path.endswith(".ipynb"):
            remedy = "give it a name that ends with .ipynb (by --stdin-filename, if it comes from stdin)"
            raise BadSource(path, 0, "is a notebook", remedy)
        wide = next((name for mark, name in _WIDE if data.startswith(mark)), "")
        if wide:
            raise BadSource(path, 0, f"is {wide}, which Python does not read", "save it as UTF-8")
        if b"\0" in data:
            line = data.count(b"\n", 0, data.index(b"\0")) + 1
            raise BadSource(path, line, "contains a NUL byte", "this looks like a binary file")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError as error:
            if "invalid or missing encoding declaration" in str(error):
                raise _not_utf8(data, path) from None
            raise BadSource(
                path, 1, f"declares an encoding that Python does not know ({error})", "correct the coding cookie"
            ) from None
        try:
            text = data.decode(encoding)
            kept = encoding.startswith("utf-8") or text.encode(encoding) == data
        except UnicodeDecodeError as error:
            if encoding.startswith("utf-8"):
                raise _not_utf8(data, path) from None
            line = data.count(b"\n", 0, error.start) + 1
            raise BadSource(
                path,
                line,
                f"is not in its declared encoding {encoding} (byte 0x{data[error.start]:02x})",
                "correct the coding cookie",
            ) from None
        except (LookupError, UnicodeError):  # `hex`, which is none of texts
            kept = False
        if not kept:
            problem = f"declares the encoding {encoding}, in which its text cannot be written back as it was"
            raise BadSource(path, 1, problem, "save it as UTF-8")
        alone = _RETURN.search(text)
        if alone is not None:
            raise BadSource(
                path,
                len(LINE.findall(text[: alone.end()])),
                "ends a line with a carriage return alone",
                "give it line feeds (as `dos2unix -c mac` does)",
            )
        return cls(path, data, text, encoding)

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their endings."""
        return LINE.findall(self.text)

    @property
    def bom(self) -> str:
        """The byte order mark, if the file starts with one. It is not a part of the text."""
        return "\ufeff" if self.encoding == "utf-8-sig" else ""

    @cached_property
    def newline(self) -> str:
        """The line ending of the first line: what inserted lines use."""
        first = self.lines[0]
        for ending in ("\r\n", "\n", "\r"):
            if first.endswith(ending):
                return ending
        return "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes: a plan is applied only to the bytes it was made for."""
        import hashlib  # late: most files get no plan

        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree.

        Raises:
            Python2Source: it does not parse and is Python 2.
            BadSource: it does not parse.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except SyntaxError as error:
            from accelift_codemod.unparsable import why  # late: most files parse

            raise why(self, error) from None
        except (RecursionError, MemoryError):
            raise BadSource(self.path, 0, "nests too deeply to be parsed", "split the deepest expression") from None

    @property
    def reads(self) -> dict[ast.AST, list[ast.alias]]:
        """Names that stand for what an import brings from another file of the program: here, none do."""
        return {}

    def unit(self, line: int) -> object:
        """The file in which a line lies: in a program of several files, not always the same."""
        return self

    def has_name_for(self, variable: str, line: int) -> bool:
        """Whether the file in which a line lies has a name for a global."""
        return True

    def segment(self, node: ast.AST) -> str:
        """The author's text of an expression or statement."""
        start = node.lineno, node.col_offset  # type: ignore[attr-defined]
        return self.cut(start, (node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]

    def cut(self, start: Place, end: Place) -> str:
        """The author's text between two places; no column is the end of the line."""
        (first, column), (last, end_column) = start, end
        if first == last:
            return _columns(self.lines[first - 1], column, end_column)
        head = _columns(self.lines[first - 1], column, None)
        tail = _columns(self.lines[last - 1], 0, end_column)
        return "".join([head, *self.lines[first : last - 1], tail])

    def between(self, first: ast.stmt, second: ast.stmt) -> list[str]:
        """The lines between two statements."""
        return self.lines[first.end_lineno or first.lineno : second.lineno - 1]

    def lines_of(self, statement: ast.AST) -> list[str]:
        """The lines that a statement stands on."""
        return self.lines[statement.lineno - 1 : statement.end_lineno]  # type: ignore[attr-defined]

    def encode(self, text: str) -> bytes:
        """Text in the script's own encoding (with its byte order mark, if it has one)."""
        return text.encode(self.encoding)


def _columns(line: str, start: int | None, end: int | None) -> str:
    """Columns of `ast`, which count UTF-8 bytes."""
    if line.isascii():
        return line[start:end]
    return line.encode()[start:end].decode()


def _not_utf8(data: bytes, path: str) -> BadSource:
    try:
        data.decode("utf-8")
        line, byte = 0, 0
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
    return BadSource(
        path,
        line,
        f"is not UTF-8 (byte 0x{byte:02x}) and declares no other encoding",
        "save it as UTF-8, or name its encoding on the first line: # -*- coding: latin-1 -*-",
    )
