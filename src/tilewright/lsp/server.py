"""The server itself: what it does when a document is opened, typed in, saved and pointed at."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

import tilewright
from tilewright.child import Child
from tilewright.cli.common import default_profile
from tilewright.lsp.findings import Found, examine_text, of_check, shown
from tilewright.lsp.hover import instruction_at, instruction_text, lens_text, rule_texts, time_texts
from tilewright.nki.static.names import CURRENT, LEGACY, SourceNames
from tilewright.target import Target, get_target

TIME_LIMIT_S = 90


@dataclass
class State:
    """What is known of an open document."""

    kernels: tuple[str, ...] = ()
    read: list[Found] = field(default_factory=list)
    """Findings in the text as it stands."""
    ran: list[Found] = field(default_factory=list)
    """Findings of the file as it was last saved and run; they go when the text changes."""
    profiles: list[dict[str, Any]] = field(default_factory=list)
    changes: int = 0
    timed: int | None = None
    """How often the text had changed when it was run: after more changes, lines are elsewhere than when timed."""
    child: Child | None = None
    """The command that is looking at it."""
    task: asyncio.Task[None] | None = None
    """Kept, since asyncio forgets tasks that nobody holds."""

    def end(self) -> None:
        """Whatever is still running is about a text that has gone."""
        if self.child is not None:
            self.child.end()
        if self.task is not None:
            self.task.cancel()


class Server(LanguageServer):
    """One server for one editor. `runs` says whether saved files may be run."""

    def __init__(self, target: str | None, profile: str | None, runs: bool) -> None:
        super().__init__("tilewright", tilewright.__version__)
        self.target: Target = get_target(target)
        self.profile = profile or default_profile()
        self.runs = runs
        self.states: dict[str, State] = {}

    def state(self, uri: str) -> State:
        return self.states.setdefault(uri, State())

    def read(self, uri: str) -> None:
        """Examine a text as it stands."""
        document, state = self.workspace.get_text_document(uri), self.state(uri)
        state.kernels, state.read = examine_text(document.source, document.path, self.profile)
        self.publish(document)

    def publish(self, document: TextDocument) -> None:
        """Send all findings of a document, each once."""
        state = self.state(document.uri)
        known = {_key(each) for each in state.ran}
        found = [*state.ran, *(each for each in state.read if _key(each) not in known)]
        made = shown(found, Path(document.path), document.lines, document.position_codec)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, made, document.version))

    async def run(self, uri: str) -> None:
        """Check and time the kernels that a saved script calls."""
        document, state = self.workspace.get_text_document(uri), self.state(uri)
        options = ["--json", "--profile", self.profile, "--target", self.target.name]
        folder, changes = Path(document.path).parent, state.changes
        for command in ("check", "profile"):
            state.child = Child([command, *options, document.path], folder)
            answer = await asyncio.to_thread(state.child.answer, TIME_LIMIT_S)
            if answer.timed_out:
                said = f"tilewright {command} {document.filename} takes over {TIME_LIMIT_S:.0f} s: not run to its end"
                self.window_log_message(types.LogMessageParams(types.MessageType.Warning, said))
                return
            if command == "check":
                state.ran = of_check(answer.document)
                self.publish(document)
            elif answer.document is not None:
                state.profiles, state.timed = answer.document.get("profiles", []), changes
        capabilities = self.client_capabilities.workspace
        if capabilities is not None and capabilities.code_lens is not None and capabilities.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)


def _key(found: Found) -> tuple[object, ...]:
    return found["code"], found["rule"], found["location"] and found["location"]["line"]


def make_server(target: str | None = None, profile: str | None = None, runs: bool = True) -> Server:
    """A server with all of its features."""
    server = Server(target, profile, runs)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.read(params.text_document.uri)
        start_run(ls, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        state = ls.state(params.text_document.uri)
        state.ran = []
        state.changes += 1
        ls.read(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        start_run(ls, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.states.pop(params.text_document.uri, State()).end()
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(types.SHUTDOWN)
    def shut_down(ls: Server, _: None) -> None:
        for state in ls.states.values():
            state.end()

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        said = _hover(ls, params)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(said))) if said else None

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    def lenses(ls: Server, params: types.CodeLensParams) -> list[types.CodeLens]:
        return _lenses(ls, params.text_document.uri)

    return server


def start_run(ls: Server, uri: str) -> None:
    """Run a script, in place of a run of it that has not ended. A file without kernels is left alone."""
    state = ls.state(uri)
    state.end()
    path = to_fs_path(uri)
    # A new document has a name before it has a file.
    if ls.runs and state.kernels and path is not None and Path(path).is_file():
        state.task = asyncio.create_task(ls.run(uri))


def _hover(ls: Server, params: types.HoverParams) -> list[str]:
    document, state = ls.workspace.get_text_document(params.text_document.uri), ls.state(params.text_document.uri)
    at = document.position_from_client_units(params.position)
    line = document.lines[at.line] if at.line < len(document.lines) else ""
    record = instruction_at(document.source, line, at.character)
    said = [] if record is None else [instruction_text(record, ls.target)]
    said += time_texts(state.profiles, document.path, at.line + 1) if state.timed == state.changes else []
    return said + rule_texts([*state.ran, *state.read], at.line + 1)


def _lenses(ls: Server, uri: str) -> list[types.CodeLens]:
    """The predicted time over each kernel that ran when the file was saved."""
    document, state = ls.workspace.get_text_document(uri), ls.state(uri)
    try:
        names = SourceNames.of(ast.parse(document.source))
    except SyntaxError:
        return []
    made: list[types.CodeLens] = []
    for kernel in (*names.kernels(CURRENT), *names.kernels(LEGACY)):
        here = types.Position(kernel.lineno - 1, 0)
        for profile in state.profiles:
            if profile["kernel"] == kernel.name:
                shown_ = types.Command(lens_text(profile), "")
                made.append(types.CodeLens(types.Range(here, here), shown_))
    return made
