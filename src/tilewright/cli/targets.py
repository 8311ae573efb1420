"""`tilewright targets`: the hardware generations side by side."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table

from tilewright.cli.common import Exit, json_option, show, show_json, target_option
from tilewright.cli.options import StrictCommand
from tilewright.target import Target, get_target, target_names

# What tells the generations apart at a glance, in this order; --all shows every figure.
HEADLINES: tuple[str, ...] = (
    "limits.partitions",
    "memory.sbuf_bytes",
    "memory.sbuf_usable_bytes",
    "memory.psum_bytes",
    "memory.psum_banks",
    "limits.matmul_stationary_free_max",
    "limits.matmul_moving_free_max.float32",
    "tensor.peak_tflops.bfloat16",
    "tensor.peak_tflops.float32",
    "tensor.peak_tflops.float8",
    "tensor.peak_tflops.mx",
    "clock_ghz.tensor",
    "clock_ghz.vector",
    "clock_ghz.scalar",
    "clock_ghz.gpsimd",
    "dma.engines_per_core",
    "dma.core_bandwidth",
    "hbm.capacity_gib",
    "hbm.chip_bandwidth",
    "hbm.core_share",
    "chip.cores",
    "limits.lnc_max",
    "features.dma_transpose",
    "features.double_row",
    "features.nc_matmul_mx",
    "features.vector_fast_modes",
    "features.indirection",
)


@click.command(
    cls=StrictCommand,
    short_help="Compare the hardware generations.",
    epilog="Examples: tilewright targets; tilewright targets --target trn2 --all",
)
@target_option
@click.option("--all", "everything", is_flag=True, help="Every figure, not only the headlines.")
@json_option
def targets(target: str | None, everything: bool, as_json: bool) -> int:
    """Compare the hardware generations; with --target show one of them with the source of every figure."""
    chosen = [get_target(target)] if target else [get_target(name) for name in target_names()]
    keys = list(dict.fromkeys(key for each in chosen for key in each)) if everything else list(HEADLINES)
    if as_json:
        show_json({each.name: _data(each, keys) for each in chosen})
    elif target:
        show(_one(chosen[0], keys))
    else:
        show(_compare(chosen, keys))
    return Exit.OK


def _data(target: Target, keys: list[str]) -> dict[str, Any]:
    return {
        "title": target.title,
        "generation": target.generation,
        "figures": {
            key: {
                "value": target[key],
                "unit": target.figure(key).unit,
                "source": target.figure(key).source,
                "confidence": target.figure(key).confidence,
            }
            for key in keys
            if key in target
        },
    }


def _compare(targets: list[Target], keys: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure")
    for each in targets:
        table.add_column(each.name, justify="right")
    table.add_column("unit")
    table.add_row("generation", *(f"NeuronCore-v{each.generation}" for each in targets), "")
    for key in keys:
        unit = next(each.figure(key).unit for each in targets if key in each)
        table.add_row(key, *(_shown(each[key]) if key in each else "-" for each in targets), unit)
    return table


def _one(target: Target, keys: list[str]) -> Table:
    table = Table(title=target.title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in ("figure", "value", "unit", "confidence", "source"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for key in keys:
        figure = target.figure(key)
        table.add_row(key, _shown(figure.value), figure.unit, figure.confidence, figure.source)
    return table


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value)
