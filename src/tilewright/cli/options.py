"""Options that all count: none is given twice, nor beside one with which it would mean nothing; numbers are numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from tilewright.target import target_names


class StrictCommand(click.Command):
    """A command that refuses options which it would otherwise pass over.

    `needs`: an option, and the one without which it says nothing. `apart`: an option, and those that it rules out.
    Options are named as they are typed, arguments by their metavar.
    """

    def __init__(
        self,
        *args: Any,
        needs: Mapping[str, str] | None = None,
        apart: Mapping[str, Sequence[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.needs = needs or {}
        self.apart = apart or {}
        named = {*self.needs, *self.needs.values(), *self.apart, *chain.from_iterable(self.apart.values())}
        unknown = named - {name for each in self.params for name in _names(each)}
        assert not unknown, f"{self.name} has no {', '.join(sorted(unknown))}"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line, then look at what it holds together."""
        *_, order = self.make_parser(ctx).parse_args(args=list(args))
        self._refuse_twice(ctx, order)
        rest = super().parse_args(ctx, args)
        given = {name for each in self.params if _is_given(ctx, each) for name in _names(each)}
        for option, other in self.needs.items():
            if option in given and other not in given:
                raise click.UsageError(f"{option} goes with {self._typed(other)}, which is not given", ctx)
        for option, others in self.apart.items():
            beside = [other for other in others if other in given]
            if option in given and beside:
                raise click.UsageError(f"{option} does not go with {beside[0]}", ctx)
        return rest

    def _typed(self, name: str) -> str:
        """An option with what follows it."""
        (found,) = (each for each in self.params if name in _names(each))
        return f"{name} {found.metavar}" if found.metavar else name

    def _refuse_twice(self, ctx: click.Context, order: Sequence[click.Parameter]) -> None:
        seen: set[click.Parameter] = set()
        for each in order:
            single = isinstance(each, click.Option) and not (each.multiple or each.count or each.is_flag)
            if single and each in seen:
                raise click.UsageError(f"{each.opts[-1]} is given twice", ctx)
            seen.add(each)


def _names(parameter: click.Parameter) -> list[str]:
    return parameter.opts if isinstance(parameter, click.Option) else [parameter.human_readable_name]


def _is_given(ctx: click.Context, parameter: click.Parameter) -> bool:
    assert parameter.name is not None
    return ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE


class Number(click.FloatRange):
    """A finite number from `least` on, or above it."""

    def __init__(self, least: float, above: bool = False) -> None:
        super().__init__(least, min_open=above)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A text as a number; infinity and NaN are none."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class FileType(click.ParamType):
    """The name of a file, which a shell completes; what is wrong with it the command says itself."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of files."""
        return [CompletionItem(incomplete, type="file")]


class PlaceType(FileType):
    """The name of a file or folder to write to: not nothing, which would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        if not str(value):
            self.fail("the name is empty", param, ctx)
        return str(value)


class NameType(click.ParamType):
    """One of many names, which a shell completes; the command says what is near one that it does not know."""

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, whatever their case."""
        begun = incomplete.lower()
        return [CompletionItem(each) for each in self.names() if each.lower().startswith(begun)]


FILE = FileType()
PLACE = PlaceType()
TARGET = NameType(target_names)
