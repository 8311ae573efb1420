"""The server: one tool per command, each run in a process of its own, in one folder and for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool

import tilewright
from tilewright.child import Child
from tilewright.mcp.folder import Folder, Refused

MOST_MESSAGES = 8000
"""Characters of what a script prints that an answer carries: its end says what went wrong."""

_INSTRUCTIONS = """\
Checks, runs and times kernels for AWS Trainium (NKI) on a simulator, and compiles NumPy functions to such kernels.
Write a script into the served folder, `check` it, mend what the diagnostics name (`explain` and `isa` say more), then
`profile` it. Exit codes: 0 all is well, 1 the kernel or the script is at fault, 2 wrong usage, 3 a bug of tilewright.
"""
# Long parts of documents that say how a figure came about, not what to do.
_LEFT_OUT = frozenset({"occupancy", "places", "choices", "tile_ir", "passes", "ir"})


class Tools:
    """The tools of one folder."""

    def __init__(self, folder: Folder, time_limit_s: float) -> None:
        self.folder = folder
        self.time_limit_s = time_limit_s

    async def check(
        self,
        path: str,
        targets: Sequence[str] = (),
        kernel: str | None = None,
        shapes: Mapping[str, str] = {},
        static: bool = False,
        arguments: Sequence[str] = (),
    ) -> dict[str, Any]:
        """List everything that the kernels a script calls break, with line, column, rule and hint.

        path: a Python file of the served folder. targets: such as trn1, trn2, trn3 (default trn2). kernel: check only
        this kernel, on arrays that `shapes` describes by parameter, such as {"x": "128x512:bfloat16"}; the script's
        `if __name__ == "__main__"` part is then not run. static: read the source only. arguments: for the script.
        """
        options = [option for each in targets for option in self._target(each)] + self._kernel(kernel, shapes)
        return await self._script("check", path, options + (["--static"] if static else []), arguments)

    async def run(self, path: str, target: str | None = None, arguments: Sequence[str] = ()) -> dict[str, Any]:
        """Run a script on the simulator: what it printed, and the diagnostic that ended it if one did.

        path: a Python file of the served folder. arguments: for the script.
        """
        return await self._script("run", path, ["--simulate", *self._target(target)], arguments)

    async def profile(
        self,
        path: str,
        target: str | None = None,
        kernel: str | None = None,
        shapes: Mapping[str, str] = {},
        arguments: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Predict how long the kernels of a script take: latency, lower bound, engines, critical path by line, advice.

        Parameters as for check.
        """
        return await self._script("profile", path, self._target(target) + self._kernel(kernel, shapes), arguments)

    async def compile(
        self,
        path: str,
        function: str,
        arguments: Sequence[str] = (),
        target: str | None = None,
        check: bool = False,
    ) -> dict[str, Any]:
        """Compile a NumPy function to an NKI kernel: its source, predicted time and plan.

        arguments: one per parameter: an array such as "128x512:float32", or a Python value; "eps=1e-6" by name.
        check: run the kernel on random arrays and compare it with NumPy.
        """
        file = self._file(path)
        if not function.isidentifier():
            raise ToolError(f"{function!r} is no name of a function")
        options = [*self._target(target), *(f"--arg={self._value(each)}" for each in arguments)]
        return await self._answer(["compile", *options, *(["--check"] if check else []), f"{file}:{function}"])

    async def explain(self, name: str) -> dict[str, Any]:
        """What a diagnostic code (E104) or a rule (R-nc_matmul-06) means, with a bad and a good example."""
        return await self._answer(["explain", "--", name])

    async def isa(self, name: str | None = None, target: str | None = None) -> dict[str, Any]:
        """An instruction: signature, operands, rules and cost. Without a name: all instructions of a target."""
        return await self._answer(["isa", *self._target(target), *(["--", name] if name else [])])

    def _file(self, path: str) -> Path:
        try:
            return self.folder.file(path)
        except Refused as refused:
            raise ToolError(str(refused)) from None

    def _value(self, text: str) -> str:
        try:
            return self.folder.value(text)
        except Refused as refused:
            raise ToolError(str(refused)) from None

    def _target(self, target: str | None) -> list[str]:
        return [] if target is None else [f"--target={self._value(target)}"]

    def _kernel(self, kernel: str | None, shapes: Mapping[str, str]) -> list[str]:
        if kernel is None and shapes:
            raise ToolError("shapes are those of a kernel's parameters: name the kernel too")
        named = [] if kernel is None else [f"--kernel={kernel}"]
        return named + [f"--shape={name}={self._value(shape)}" for name, shape in shapes.items()]

    async def _script(
        self, command: str, path: str, options: Sequence[str], arguments: Sequence[str]
    ) -> dict[str, Any]:
        """A command on a script; what stands behind -- is the script's own."""
        return await self._answer([command, *options, str(self._file(path)), "--", *arguments])

    async def _answer(self, arguments: Sequence[str]) -> dict[str, Any]:
        command, *rest = arguments
        child = Child([command, "--json", *rest], self.folder.path)
        try:
            answer = await asyncio.to_thread(child.answer, self.time_limit_s)
        finally:
            # A client that no longer waits leaves nothing running.
            child.end()
        if answer.timed_out:
            raise ToolError(f"{command} was ended after {self.time_limit_s:g} s, the server's time limit")
        messages = answer.messages[-MOST_MESSAGES:]
        return {"exit_code": answer.exit_code, "result": _shortened(answer.document), "messages": messages}


def _shortened(value: Any) -> Any:
    """A document without what no reader of it needs."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items() if key not in _LEFT_OUT}
    return [_shortened(each) for each in value] if isinstance(value, list) else value


def make_server(folder: Path, time_limit_s: float) -> MCPServer[Any]:
    """A server of the tools for one folder."""
    tools = Tools(Folder(folder), time_limit_s)
    offered = (tools.check, tools.run, tools.profile, tools.compile, tools.explain, tools.isa)
    return MCPServer(
        "tilewright",
        instructions=_INSTRUCTIONS,
        version=tilewright.__version__,
        tools=[_strict(Tool.from_function(each)) for each in offered],
    )


def _strict(tool: Tool) -> Tool:
    """A tool that refuses arguments which it does not have: a misspelt one would get lost."""
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    return tool.model_copy(update={"parameters": model.model_json_schema(by_alias=True)})
