"""The compiler on its corpus: figures of every kernel beside what is asked of it, and what compiling costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import numpy as np

import tilewright as tw
from bench import goals
from bench.corpus import matching
from bench.goals import geometric_mean
from bench.measure import Figures, measure_apart

KERNELS = (
    f"{'program':37} {'instr':>6} {'peer':>7} {'fewer':>7}   {'HBM MB':>9} {'needed':>8} {'ratio':>6}"
    f"   {'us':>8} {'least':>7} {'ratio':>6}  {'asked':>6} {'bound by':8} {'error':>8}"
)
COMPILING = (
    f"{'program':37} {'trace':>7} {'passes':>7} {'lower':>7} {'timing':>7} {'all':>7}   {'peer lower':>10}"
    f"   {'MiB':>6} {'tile ops':>9}"
)


class Verdict(NamedTuple):
    """A figure, what it should be, and whether it is."""

    what: str
    value: float
    goal: str
    holds: bool


def run(parts: list[str], target: str, check: bool = True, as_json: bool = False) -> bool:
    """Measure the programs whose names contain one of the parts and print the tables; says whether all goals hold."""
    # What every process does once is no program's cost.
    tw.compile(lambda x: np.exp(x @ x), np.ones((8, 8), np.float32), target=target).report.latency_us  # noqa: B018
    print_now: Callable[[str], None] = (lambda text: None) if as_json else (lambda text: print(text, flush=True))
    print_now(KERNELS)
    found: list[Figures] = []
    for program in matching(parts):
        found.append(measure_apart(program, target, check))
        print_now(kernel_row(found[-1]))
    print_now(f"\nseconds of CPU\n{COMPILING}")
    for figures in found:
        print_now(compiling_row(figures))
    verdicts = [v for figures in found for v in judge(figures)] + means(found)
    if as_json:
        print(json.dumps(as_data(found, verdicts), indent=1))
    print_now("")
    for verdict in means(found):
        mark = "" if target != goals.TARGET else "ok" if verdict.holds else "OVER"
        print_now(f"{verdict.what:50} {verdict.value:8.3f}   asked {verdict.goal:12} {mark}")
    return target != goals.TARGET or all(v.holds for v in verdicts)


def judge(f: Figures) -> list[Verdict]:
    """What is asked of one program."""
    made = [Verdict(f"{f.name}: HBM bytes over needed", f.traffic, f"<= {goals.TRAFFIC}", f.traffic <= goals.TRAFFIC)]
    if f.fewer is not None:
        goal = goals.instructions_goal(f.name)
        made.append(Verdict(f"{f.name}: fewer instructions", f.fewer, f">= {goal}", f.fewer >= goal))
    made.append(Verdict(f"{f.name}: below what any kernel needs", f.bound_error, "0", not f.bound_error))
    goal = goals.latency_goal(f.name)
    if goal is not None:
        made.append(Verdict(f"{f.name}: over roofline", f.off_roofline, f"<= {goal}", f.off_roofline <= goal))
    if f.error is not None:
        most = goals.ERROR["bfloat16" if f.narrow else "float32"]
        made.append(Verdict(f"{f.name}: error", f.error, f"<= {most:.1e}", f.error <= most))
    quick = f.compile_s <= goals.COMPILE_SECONDS
    made.append(Verdict(f"{f.name}: compile seconds", f.compile_s, f"<= {goals.COMPILE_SECONDS}", quick))
    if f.memory_mib is not None:
        small = f.memory_mib <= goals.COMPILE_MIB
        made.append(Verdict(f"{f.name}: compile MiB", f.memory_mib, f"<= {goals.COMPILE_MIB}", small))
    return made


def means(found: list[Figures]) -> list[Verdict]:
    """Geometric means over the programs."""
    traffic = geometric_mean([f.traffic for f in found])
    fewer = geometric_mean([f.fewer for f in found if f.fewer is not None])
    off = geometric_mean([f.off_roofline for f in found if f.roofline_us > goals.MEAN_ABOVE_US])
    above = f"geometric mean: over roofline, above {goals.MEAN_ABOVE_US:.0f} us"
    return [
        Verdict(
            "geometric mean: HBM bytes over needed",
            traffic,
            f"<= {goals.TRAFFIC_MEAN}",
            traffic <= goals.TRAFFIC_MEAN,
        ),
        Verdict(
            "geometric mean: fewer instructions than the peer",
            fewer,
            f">= {goals.FEWER_INSTRUCTIONS_MEAN}",
            fewer >= goals.FEWER_INSTRUCTIONS_MEAN,
        ),
        Verdict(above, off, f"<= {goals.LATENCY_MEAN}", off <= goals.LATENCY_MEAN),
    ]


def kernel_row(f: Figures) -> str:
    """A line of the first table; a figure that is not what it should be is followed by an exclamation mark."""
    on_goal = f.target == goals.TARGET
    goal = goals.latency_goal(f.name) if on_goal else None
    many = on_goal and f.fewer is not None and f.fewer < goals.instructions_goal(f.name)
    slow = goal is not None and f.off_roofline > goal
    wrong = f.error is not None and f.error > goals.ERROR["bfloat16" if f.narrow else "float32"]
    return (
        f"{f.name:37} {f.instructions:6} {f.peer_instructions or '-':>7} "
        f"{'-' if f.fewer is None else format(f.fewer, '.1f') + 'x':>7}{_mark(many)}"
        f" {f.hbm_bytes / 1e6:9.3f} {f.compulsory_bytes / 1e6:8.3f} {f.traffic:6.3f}"
        f"{_mark(on_goal and f.traffic > goals.TRAFFIC)}"
        f" {f.latency_us:8.1f} {f.roofline_us:7.1f} {f.off_roofline:6.2f}{_mark(slow)}"
        f"{'' if goal is None else format(goal, '.2f'):>6} {f.binding:8}"
        f" {'' if f.error is None else format(f.error, '.1e'):>8}{_mark(wrong)}"
    ).rstrip()


def compiling_row(f: Figures) -> str:
    """A line of the second table."""
    memory = "-" if f.memory_mib is None else f"{f.memory_mib:.0f}"
    peer = "-" if f.peer_lower_s is None else f"{f.peer_lower_s:.3f}"
    over = f.memory_mib is not None and f.memory_mib > goals.COMPILE_MIB
    return (
        f"{f.name:37} {f.trace_s:7.3f} {f.passes_s:7.3f} {f.lower_s:7.3f} {f.timing_s:7.3f} {f.compile_s:7.3f}"
        f"{_mark(f.compile_s > goals.COMPILE_SECONDS)} "
        f"{peer:>10}   {memory:>6}{_mark(over)}{f.tile_ops:8}"
    ).rstrip()


def as_data(found: list[Figures], verdicts: list[Verdict]) -> dict:
    """Everything, for other programs."""
    extra = ("fewer", "traffic", "off_roofline", "compile_s")
    return {
        "programs": [asdict(f) | {name: getattr(f, name) for name in extra} for f in found],
        "goals": [verdict._asdict() for verdict in verdicts],
    }


def _mark(bad: bool) -> str:
    return " !" if bad else "  "
