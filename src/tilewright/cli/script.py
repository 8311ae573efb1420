"""Running a user's script: as `python script.py` would, with nki provided, and its errors shown without our frames."""

from __future__ import annotations

import bdb
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

import click

from tilewright.cli.options import StrictCommand
from tilewright.diagnose.blame import is_our_fault
from tilewright.errors import UNREADABLE, TileError, fail, is_internal, unreadable


def read_script(script: str) -> tuple[Path, CodeType]:
    """Read and compile a script; a diagnostic when it is missing or does not parse."""
    path = Path(script).absolute()
    try:
        source = path.read_bytes() if script else b""
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte in it
        raise _unreadable(script, getattr(error, "strerror", None) or str(error)) from None
    if not script:
        raise _unreadable("a script without a name", "No such file or directory")
    try:
        # Decoded as python decodes a file: compile alone lets bytes that are no text pass in comments.
        return path, compile(importlib.util.decode_source(source), str(path), "exec", dont_inherit=True)
    except UNREADABLE as error:
        raise unreadable("E702", script, str(path), error) from None


def _unreadable(script: str, reason: str) -> TileError:
    hint = "give the path of a Python script that defines or calls kernels"
    if script and "\0" not in script and Path(f"{script}.py").is_file():
        hint = f"did you mean {script}.py?"
    return fail("E701", f"cannot read {script}: {reason}", hint=hint)


class ScriptCommand(StrictCommand):
    """A command with a SCRIPT: its own options are taken on either side of it, all others behind it are the script's.

    What stands behind -- is the script's in any case.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command's own options first."""
        return super().parse_args(ctx, self._own_first(args, ctx))

    def _own_first(self, args: list[str], ctx: click.Context) -> list[str]:
        at = self._after_options(args, 0)
        if at >= len(args) or args[at] == "--":
            return args
        first, script, rest = args[:at], args[at], args[at + 1 :]
        stop = rest.index("--") if "--" in rest else len(rest)
        own: list[str] = []
        others: list[str] = []
        i = 0
        while i < stop:
            after = self._after_options(rest[:stop], i, most=1)
            if after > i and self._option(rest[i]) is not None:
                own += rest[i:after]
            else:
                self._refuse_nearly(rest[i], ctx)
                after = i + 1
                others.append(rest[i])
            i = after
        return [*first, *own, script, *others, *rest[stop + 1 :]]

    def _refuse_nearly(self, text: str, ctx: click.Context) -> None:
        """An option that is nearly one of the command's was meant for it: given to the script, it would say nothing."""
        name = text.partition("=")[0]
        if not name.startswith("--") or name == "--":
            return
        own = [each for option in self.params if isinstance(option, click.Option) for each in option.opts]
        begun = [each for each in own if len(name) > len("--x") and each.startswith(name)]
        near = begun or [each for each in own if _differ_by_a_slip(name, each)]
        if near:
            words = f"no option {name}: did you mean {near[0]}? what is for the script stands behind --"
            raise click.UsageError(words, ctx)

    def _after_options(self, args: list[str], at: int, most: int | None = None) -> int:
        """Where the options that begin here end, with their values."""
        count = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--") and count != most:
            option = self._option(args[at])
            with_value = option is not None and not option.is_flag and not option.count and "=" not in args[at]
            at += 2 if with_value else 1
            count += 1
        return at

    def _option(self, text: str) -> click.Option | None:
        name = text.partition("=")[0]
        options = [each for each in self.params if isinstance(each, click.Option)]
        return next((each for each in options if name in (*each.opts, *each.secondary_opts)), None)


def _differ_by_a_slip(one: str, two: str) -> bool:
    """Whether a letter is missing, one too many or another one, or two are swapped."""
    same = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    a, b = one[same:], two[same:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


@contextmanager
def _as_script(path: Path, name: str, arguments: Sequence[str]) -> Iterator[ModuleType]:
    """A fresh module for the script, with sys.argv, sys.path[0] and sys.modules as python sets them."""
    module = ModuleType(name)
    module.__file__ = str(path)
    argv, first, main = sys.argv, list(sys.path), sys.modules.get(name)
    sys.argv = list(arguments)
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    linecache.checkcache(str(path))
    try:
        yield module
    finally:
        sys.argv, sys.path[:] = argv, first
        if main is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = main


def run_script(script: str, arguments: Sequence[str], name: str = "__main__") -> ScriptEnd:
    """Run a script as a module of that name. What it raised is in the result; SystemExit counts as its exit code."""
    path, code = read_script(script)
    end = ScriptEnd(path, script, tuple(arguments))
    with _as_script(path, name, [script, *arguments]) as module, end:
        end.namespace = module.__dict__
        exec(code, module.__dict__)
        lazy = sys.modules.get("tilewright.programs.lazy")
        if lazy is not None:
            lazy.settle_devices()
    return end


class ScriptEnd:
    """How a script ended. As a context manager it keeps whatever leaves the script."""

    def __init__(self, path: Path, given: str = "", arguments: tuple[str, ...] = ()) -> None:
        self.path, self.given, self.arguments = path, given or str(path), arguments
        self.namespace: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.exit_code = 0

    def __enter__(self) -> ScriptEnd:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, SystemExit):
            self.exit_code = _exit_code(error)
            return True
        if isinstance(error, bdb.BdbQuit):
            # The user left the debugger (a script's breakpoint()).
            self.exit_code = 1
            return True
        if isinstance(error, KeyboardInterrupt):
            return False
        self.error = error
        if error is not None:
            self.exit_code = 1
        return True

    @property
    def fault(self) -> TileError | None:
        """The diagnostic that ended the script, if one did."""
        return self.error if isinstance(self.error, TileError) else None

    @property
    def internal(self) -> bool:
        """True when a bug of ours ended the script: the error arose in this package, not in the user's code."""
        return self.error is not None and is_our_fault(self.error)

    def traceback(self) -> str:
        """The traceback of the script's own error, from its first line on and without frames of this package."""
        assert self.error is not None
        return users_traceback(self.error)


def users_traceback(error: BaseException) -> str:
    """A traceback without frames of this package, nor of what called the command."""
    shown = traceback.TracebackException.from_exception(error)
    _drop_internal(shown)
    return "".join(shown.format())


def _exit_code(error: SystemExit) -> int:
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _is_click(file: str) -> bool:
    return Path(file).is_relative_to(Path(click.__file__).parent)


def _drop_internal(shown: traceback.TracebackException) -> None:
    """Remove frames of this package from an exception and everything that led to it."""
    seen: set[int] = set()
    pending: list[traceback.TracebackException | None] = [shown]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        kept = [frame for frame in each.stack if not (is_internal(frame.filename) or _is_click(frame.filename))]
        each.stack = traceback.StackSummary.from_list(kept)
        # Members of an exception group (Python 3.11 and newer).
        pending += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]
