"""The tables and the picture of docs/performance.md, from what the compiler makes today.

`python -m bench.document` prints them, `--write` puts them into the document; names choose sections.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import tilewright as tw
from bench import scaling
from bench.compiler import means
from bench.corpus import PROGRAMS, named
from bench.measure import Figures, measure
from tilewright.compiler import Compiled

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
PICTURE = DOCUMENT.parent / "images" / "performance-engines.svg"
TARGET = "trn2"

LOOKED_INTO = (
    "softmax_4096x2048",
    "rmsnorm_2048x4096_bf16",
    "matmul_2048_bf16",
    "attention_causal_s4096_d128",
    "qwen3_0.6b_layer_s128_bf16",
    "deltanet_chunk128_d128_rows",
)
ENGINES: tuple[str, ...] = ("tensor", "vector", "scalar", "gpsimd", "dma")
COLOURS: dict[str, str] = dict(zip(ENGINES, ("#4c78a8", "#59a14f", "#e0a030", "#b07aa1", "#9c755f"), strict=True))


def corpus() -> Iterator[str]:
    """Every program of the corpus."""
    yield "| program | instructions | peer | fewer | HBM over needed | latency µs | least µs | over least | bound by |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    found: list[Figures] = []
    for program in PROGRAMS:
        f = measure(program, TARGET, check=False)
        found.append(f)
        other = ("-", "-") if f.fewer is None else (str(f.peer_instructions), f"{f.fewer:.1f}x")
        yield (
            f"| {f.name} | {f.instructions} | {other[0]} | {other[1]} | {f.traffic:.3f} | {f.latency_us:.1f} |"
            f" {f.roofline_us:.1f} | {f.off_roofline:.2f} | {f.binding} |"
        )
    yield ""
    yield from (f"- {mean.what}: {mean.value:.3f}, asked {mean.goal}" for mean in means(found))


def engines() -> Iterator[str]:
    """How busy each engine is while some programs run; draws the picture too."""
    yield f"| program | latency µs | {' | '.join(ENGINES)} |"
    yield f"|---|---:|{'---:|' * len(ENGINES)}"
    bars: list[tuple[str, dict[str, float]]] = []
    for name in LOOKED_INTO:
        program = named(name)
        described = (tw.spec(a.shape, a.dtype) for a in program.make())
        kernel = tw.compile(program.fn, *described, target=TARGET)
        assert isinstance(kernel, Compiled)
        report = kernel.report
        shares = {engine: report.engine_busy_us.get(engine, 0.0) / report.latency_us for engine in ENGINES}
        bars.append((f"{name}, {report.latency_us:.0f} µs", shares))
        yield f"| {name} | {report.latency_us:.0f} | {' | '.join(f'{shares[e]:.0%}' for e in ENGINES)} |"
    if "--write" in sys.argv:
        PICTURE.write_text(drawn(bars), encoding="utf-8")


def drawn(bars: list[tuple[str, dict[str, float]]]) -> str:
    """A bar for each engine of each program: the share of the time that it is busy."""
    wide, line, left = 420, 13, 70
    parts: list[str] = []
    y = 20
    for title, shares in bars:
        parts.append(f'<text x="4" y="{y}" font-weight="bold">{title}</text>')
        y += 6
        for engine, share in shares.items():
            parts.append(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{engine}</text>')
            parts.append(f'<rect x="{left}" y="{y + 1}" width="{wide}" height="{line - 3}" fill="#eeeeee"/>')
            length = max(share, 0.0) * wide
            parts.append(
                f'<rect x="{left}" y="{y + 1}" width="{length:.1f}" height="{line - 3}" fill="{COLOURS[engine]}"/>'
            )
            parts.append(f'<text x="{left + wide + 6}" y="{y + 10}">{share:.0%}</text>')
            y += line
        y += 22
    size = f'width="{left + wide + 50}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    back = f'<rect width="{left + wide + 50}" height="{y}" fill="white"/>'
    return "\n".join([head, back, *parts, "</svg>\n"])


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "corpus": corpus,
    "engines": engines,
    **{name: (lambda series=series: scaling.table(series)) for name, series in scaling.SERIES.items()},
}


def put(text: str, name: str, lines: list[str]) -> str:
    """A document with what stands between the marks of a section replaced."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    first, last = text.index(begin) + len(begin), text.index(end)
    return text[:first] + "\n".join(lines).strip("\n") + "\n" + text[last:]


def main(arguments: list[str]) -> int:
    """Print the sections asked for, or write them into the document."""
    os.environ["TILEWRIGHT_CACHE"] = "off"
    names = [name for name in arguments if name != "--write"]
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        print(f"no section named {unknown[0]}; there are {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    scaling.measure(scaling.SERIES["matmul-bf16"], 128)  # what every process does once is no program's cost
    for name in names or SECTIONS:
        lines: list[str] = []
        for line in SECTIONS[name]():
            print(line, flush=True)
            lines.append(line)
        if "--write" in arguments:
            DOCUMENT.write_text(put(DOCUMENT.read_text(encoding="utf-8"), name, lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
