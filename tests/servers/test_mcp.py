"""The tools of the Model Context Protocol, called by the SDK's own client over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from tilewright.mcp.folder import Folder, Refused

KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scale(x, factor=2.0):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def doubled(x):
    return x + x


if __name__ == "__main__":
    print("sum", scale(np.ones((128, 16), np.float32)).sum())
"""


def folder_with_kernel(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "sleep.py").write_text("import time\ntime.sleep(1000)\n")
    (tmp_path / "secret.py").write_text("print('secret')\n")
    (folder / "link.py").symlink_to(tmp_path / "secret.py")
    return folder


async def call(client: Client, tool: str, /, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    return answer.structured_content


async def refusal(client: Client, tool: str, /, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content)


async def session(folder: Path) -> None:
    """One session through every tool: a server takes long to start."""
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "HOME")}
    arguments = ["-m", "tilewright", "mcp", "--time-limit", "100", str(folder)]
    async with Client(
        stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=environment))
    ) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"check", "run", "profile", "compile", "explain", "isa"}
        assert tools["check"].input_schema["required"] == ["path"]
        assert all(tool.description for tool in tools.values())

        good = await call(client, "run", path="kernel.py")
        assert good["exit_code"] == 0 and good["messages"] == "sum 4096.0\n"
        shapes = {"x": "256x16:float32"}
        bad = await call(client, "check", path="kernel.py", kernel="scale", shapes=shapes, targets=["trn1"])
        (found,) = bad["result"]["targets"]["trn1"]["diagnostics"]
        assert bad["exit_code"] == 1 and found["code"] == "E104" and found["location"]["line"] == 9
        profiled = await call(client, "profile", path="kernel.py", kernel="scale", shapes={"x": "128x16"})
        assert profiled["result"]["profiles"][0]["latency_us"] > 1 and "occupancy" not in str(profiled)
        compiled = await call(client, "compile", path="kernel.py", function="doubled", arguments=["128x64:float32"])
        assert "@nki.jit" in compiled["result"]["kernels"][0]["source"]
        explained = await call(client, "explain", name="E104")
        assert explained["result"]["code"] == "E104" and "nki" in explained["result"]["bad"]
        described = await call(client, "isa", name="nc_matmul", target="trn2")
        assert described["result"]["signature"].startswith("nisa.nc_matmul(")

        for outside in ("../secret.py", str(folder.parent / "secret.py"), "link.py"):
            assert "outside of the folder" in await refusal(client, "run", path=outside)
        assert "no file" in await refusal(client, "check", path="nowhere.py")
        assert "kernal" in await refusal(client, "check", path="kernel.py", kernal="scale")
        assert "outside" in await refusal(
            client, "compile", path="kernel.py", function="doubled", arguments=["../secret.npy"]
        )
        assert "no name" in await refusal(client, "compile", path="kernel.py", function="doubled;x")
        assert "outside" in await refusal(client, "isa", target="../trn9.toml")


def test_a_session(tmp_path: Path):
    asyncio.run(asyncio.wait_for(session(folder_with_kernel(tmp_path)), 280))


def test_the_time_limit(tmp_path: Path):
    from mcp.server.mcpserver.exceptions import ToolError

    from tilewright.mcp.server import Tools

    tools = Tools(Folder(folder_with_kernel(tmp_path)), 0.5)
    started = time.monotonic()
    with pytest.raises(ToolError, match=r"ended after 0\.5 s"):
        asyncio.run(tools.run("sleep.py"))
    assert time.monotonic() - started < 100


@pytest.mark.parametrize("name", ["", "a\0b", "..", "/etc/hostname", "inner/../../secret.py", "link.py", "."])
def test_paths_that_are_refused(tmp_path: Path, name: str):
    with pytest.raises(Refused):
        Folder(folder_with_kernel(tmp_path)).file(name)


@pytest.mark.parametrize("text", ["128x512:float32", "eps=1e-6", "[128x512, 512:int32]", "trn2", "True"])
def test_values_that_name_no_file(tmp_path: Path, text: str):
    assert Folder(tmp_path).value(text) == text


def test_values_that_name_a_file(tmp_path: Path):
    served = Folder(folder_with_kernel(tmp_path))
    assert served.value("x=kernel.py") == f"x={served.path / 'kernel.py'}"
    for outside in ("x=../secret.npy", "/etc/passwd", "a=b.npy", "..\\secret"):
        with pytest.raises(Refused):
            served.value(outside)
