"""The language server, driven over standard input and output by pygls's own client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.workspace import PositionCodec

from tilewright.lsp.findings import span
from tilewright.lsp.server import make_server, start_run

SOURCE = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def scale(x, y):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    "ä𝄞"; nisa.tensor_tensor(tile, tile, y, op=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


scale(np.ones((128, 16), np.float32), np.ones((128, 16), np.float32))
"""
WAIT_S = 100


class Editor:
    """A client with one document open."""

    def __init__(self, client: LanguageClient, path: Path) -> None:
        self.client = client
        self.path = path
        self.uri = path.as_uri()
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.refreshed = asyncio.Event()

    async def open(self, text: str) -> list[types.Diagnostic]:
        self.client.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(self.uri, types.LanguageKind.Python, 1, text))
        )
        return await self.diagnostics()

    async def type(self, text: str, version: int) -> list[types.Diagnostic]:
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version, self.uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )
        return await self.diagnostics()

    async def save(self, text: str) -> list[types.Diagnostic]:
        self.path.write_text(text, encoding="utf-8")
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(self.uri)))
        return await self.diagnostics()

    async def diagnostics(self) -> list[types.Diagnostic]:
        found = await asyncio.wait_for(self.published.get(), WAIT_S)
        assert found.uri == self.uri
        return list(found.diagnostics)

    async def hover(self, text: str, word: str) -> str:
        line = next(i for i, each in enumerate(text.splitlines()) if word in each)
        column = text.splitlines()[line].index(word)
        units = len(text.splitlines()[line][:column].encode("utf-16-le")) // 2
        found = await self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(self.uri), types.Position(line, units + 1))
        )
        assert found is not None and isinstance(found.contents, types.MarkupContent)
        return found.contents.value


@asynccontextmanager
async def editing(path: Path, *options: str) -> AsyncIterator[Editor]:
    client = LanguageClient("test", "1")
    editor = Editor(client, path)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def publish(params: types.PublishDiagnosticsParams) -> None:
        editor.published.put_nowait(params)

    @client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(_: Any) -> None:
        editor.refreshed.set()

    await client.start_io(sys.executable, "-m", "tilewright", "lsp", *options)
    lens = types.CodeLensWorkspaceClientCapabilities(refresh_support=True)
    capabilities = types.ClientCapabilities(workspace=types.WorkspaceClientCapabilities(code_lens=lens))
    started = await client.initialize_async(types.InitializeParams(capabilities, process_id=None))
    assert started.capabilities.hover_provider and started.capabilities.code_lens_provider
    client.initialized(types.InitializedParams())
    try:
        yield editor
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


async def session(path: Path) -> None:
    """One session through everything: a server takes long to start."""
    broken = SOURCE.replace("return out", "if out is None: return x\n    return out")
    async with editing(path, "--target", "trn2") as editor:
        # As it is typed: what the source alone decides.
        assert await editor.open("def x(:\n") != []
        (found,) = await editor.type(broken, 2)
        assert found.severity == types.DiagnosticSeverity.Warning and str(found.code).endswith("R-language-02")
        assert found.range == types.Range(types.Position(13, 7), types.Position(13, 18))
        assert await editor.type(SOURCE, 3) == []
        # Saved: what running it shows, at the argument at fault, in UTF-16 units.
        (found,) = await editor.save(SOURCE)
        start = len('    "ä𝄞"; nisa.tensor_tensor(tile, tile, '.encode("utf-16-le")) // 2
        assert found.range == types.Range(types.Position(10, start), types.Position(10, start + 1))
        assert "data2 must be in sbuf or psum" in found.message and found.source == "tilewright"
        # Hover: the instruction, its cost and rules, and the rule that the line breaks.
        text = await editor.hover(SOURCE, "tensor_tensor")
        assert "tensor_tensor(dst, data1, data2, op" in text and "Cost on trn2: every " in text
        assert "R-tensor_tensor-01" in text and "R-err-unsupported_memory-01" in text
        # A good one: no findings, and its time over the kernel.
        good = SOURCE.replace("tile, y, op", "tile, tile, op")
        assert await editor.type(good, 4) == []
        editor.refreshed.clear()
        assert await editor.save(good) == []
        await asyncio.wait_for(editor.refreshed.wait(), WAIT_S)
        identifier = types.TextDocumentIdentifier(editor.uri)
        lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(identifier))
        assert lenses is not None and [lens.range.start.line for lens in lenses] == [7]
        assert lenses[0].command is not None and " us ± " in lenses[0].command.title
        assert "of the critical path" in await editor.hover(good, "dma_copy(dst=tile")
        # Typed in since: lines are no longer those that were timed.
        assert await editor.type(f"\n{good}", 5) == []
        assert "of the critical path" not in await editor.hover(f"\n{good}", "dma_copy(dst=tile")


def test_a_session(tmp_path: Path):
    asyncio.run(asyncio.wait_for(session(tmp_path / "kernel.py"), 3 * WAIT_S))


def test_a_document_without_a_file_is_not_run(tmp_path: Path):
    server = make_server()
    state = server.state((tmp_path / "new.py").as_uri())
    state.kernels = ("scale",)
    start_run(server, (tmp_path / "new.py").as_uri())
    assert state.task is None


def test_columns_of_a_location():
    lines = ["a = 𝄞 + b\n", "  c\n"]
    codec = PositionCodec(types.PositionEncodingKind.Utf16)
    place = {"line": 1, "column": 9, "end_line": 1, "end_column": 10, "part": None}
    assert span(place, lines, codec) == types.Range(types.Position(0, 9), types.Position(0, 10))
    nowhere = {"line": 2, "column": None, "end_line": None, "end_column": None, "part": None}
    assert span(nowhere, lines, codec) == types.Range(types.Position(1, 2), types.Position(1, 3))
    gone = {"line": 9, "column": 3, "end_line": 9, "end_column": 4, "part": None}
    assert span(gone, lines, codec).start.line in (2, 8)
    assert span(None, lines, codec).start == types.Position(0, 0)


@pytest.mark.parametrize("command", ["lsp", "mcp"])
def test_without_its_package(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    import importlib.util

    from tilewright.cli import main

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2 and f"pip install 'tilewright[{command}]'" in capsys.readouterr().err
