"""The roofline as a picture: what the memory and the Tensor engine allow at each intensity, and where the kernel is."""

from __future__ import annotations

from html import escape
from math import atan2, ceil, degrees, floor, log10

from tilewright.report.html_parts import card, shown_bound, tag, time_text
from tilewright.timing.summary import Timing

_WIDTH, _HEIGHT = 460.0, 268.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 18.0, 16.0, 40.0


def roofline(timing: Timing, hbm_bytes: int, sustained_bandwidth: float) -> str:
    """The card. sustained_bandwidth: GB/s that the DMA engines reach at best, of all cores that the kernel uses."""
    parts = [_bounds(timing)]
    if timing.flops and timing.mfu and hbm_bytes and timing.compulsory_bytes:
        parts.insert(0, _Plot(timing, hbm_bytes, sustained_bandwidth).svg())
    return card("Roofline", *parts, id="roofline")


def _bounds(timing: Timing) -> str:
    """The least time of each resource, which is what the limit is made of."""
    rows = []
    for name, us in sorted(timing.bounds_us.items(), key=lambda item: -item[1]):
        title = shown_bound(name) + (" (binds)" if name == timing.binding else "")
        cells = (title, time_text(us), time_text(timing.peak_bounds_us.get(name, 0.0)))
        rows.append(
            tag("tr", *(tag("td", escape(text), cls="number" if at else None) for at, text in enumerate(cells)))
        )
    head = tag(
        "tr", tag("th", "least time of"), *(tag("th", text, cls="number") for text in ("as modelled", "at peak"))
    )
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="plain")


class _Plot:
    """Flops per byte across, flops per second up, both logarithmic."""

    def __init__(self, timing: Timing, hbm_bytes: int, sustained_bandwidth: float) -> None:
        ns = timing.latency_us * 1e3
        self.speed = timing.flops / ns
        self.peak = self.speed / timing.mfu
        # Flops per ns and bytes per ns: GB/s and Gflop/s without conversion.
        self.bandwidth = timing.hbm_bandwidth / timing.hbm_bandwidth_use
        self.sustained = sustained_bandwidth
        self.intensity = timing.flops / hbm_bytes
        self.compulsory = timing.flops / timing.compulsory_bytes
        ridge = self.peak / self.bandwidth
        xs = (self.intensity, self.compulsory, ridge)
        self.x_range = floor(log10(min(xs) / 3)), ceil(log10(max(xs) * 3))
        # A decade of room below whatever is lowest; the peak is near the top.
        self.y_range = floor(log10(min(self.speed, self.peak / 30) / 1.5)), log10(self.peak * 2)

    def x(self, intensity: float) -> float:
        low, high = self.x_range
        return _LEFT + (log10(intensity) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, speed: float) -> float:
        low, high = self.y_range
        return _HEIGHT - _BOTTOM - (log10(speed) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def svg(self) -> str:
        parts = [
            *self._axes(),
            self._roof(self.bandwidth, "stroke:var(--ink);stroke-width:1.8"),
            self._roof(self.sustained, "stroke:var(--muted);stroke-width:1.2;stroke-dasharray:4 3"),
            *self._labels(),
            *self._points(),
        ]
        label = f"Roofline: {_speed(self.speed)} at {self.intensity:.3g} flop per byte; the peak is {_speed(self.peak)}"
        return tag("svg", *parts, viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}", role="img", aria_label=label)

    def _axes(self) -> list[str]:
        parts: list[str] = []
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for power in range(self.x_range[0], self.x_range[1] + 1):
            at = self.x(10.0**power)
            parts.append(_line(at, _TOP, at, bottom, "stroke:var(--grid)"))
            parts.append(_text(at, bottom + 14, f"{10.0**power:g}", "middle"))
        for power in range(ceil(self.y_range[0]), floor(self.y_range[1]) + 1):
            at = self.y(10.0**power)
            parts.append(_line(_LEFT, at, right, at, "stroke:var(--grid)"))
            parts.append(_text(_LEFT - 5, at + 4, _short(10.0**power), "end"))
        parts.append(_text((_LEFT + right) / 2, _HEIGHT - 8, "flop per byte of HBM", "middle"))
        parts.append(_text(4, _TOP - 3, "flop/s", "start"))
        return parts

    def _roof(self, bandwidth: float, style: str) -> str:
        low, high = (10.0**power for power in self.x_range)
        floor_speed = 10.0 ** self.y_range[0]
        start = max(low, floor_speed / bandwidth)
        ridge = self.peak / bandwidth
        corners = [(start, start * bandwidth), (ridge, self.peak), (high, self.peak)]
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in corners)
        return tag("polyline", points=points, style=f"fill:none;{style}")

    def _labels(self) -> list[str]:
        right = _WIDTH - _RIGHT
        ridge = self.peak / self.bandwidth
        middle = 10.0 ** ((log10(ridge) + self.x_range[0]) / 2)
        slope = -degrees(_angle(self, middle))
        at_x, at_y = self.x(middle), self.y(middle * self.bandwidth)
        turned = f"rotate({slope:.1f} {at_x:.1f} {at_y:.1f})"
        return [
            _text(right - 2, self.y(self.peak) - 5, f"peak {_speed(self.peak)}", "end"),
            tag(
                "text",
                escape(f"HBM {self.bandwidth:.0f} GB/s, {self.sustained:.0f} sustained"),
                x=f"{at_x:.1f}",
                y=f"{at_y - 6:.1f}",
                text_anchor="middle",
                transform=turned,
            ),
        ]

    def _points(self) -> list[str]:
        x, y, best = self.x(self.intensity), self.y(self.speed), self.x(self.compulsory)
        roof = self.y(min(self.peak, self.intensity * self.bandwidth))
        parts = [_line(x, y, x, roof, "stroke:var(--critical);stroke-dasharray:2 3")]
        if abs(best - x) > 2:
            parts.append(_line(x, y, best, y, "stroke:var(--muted);stroke-dasharray:2 3"))
            parts.append(_dot(best, y, 4, "if every byte were moved once", "fill:var(--card);stroke:var(--muted)"))
        parts.append(_dot(x, y, 5, "this kernel", "fill:var(--critical)"))
        anchor, at = ("end", x - 9) if x > _WIDTH * 0.6 else ("start", x + 9)
        parts.append(
            tag(
                "text",
                escape(f"{_speed(self.speed)} at {self.intensity:.3g} flop/B"),
                x=f"{at:.1f}",
                y=f"{y + 16:.1f}",
                text_anchor=anchor,
                style="fill:var(--ink);font-weight:600",
            )
        )
        return parts


def _angle(plot: _Plot, at: float) -> float:
    dx = plot.x(at * 2) - plot.x(at)
    dy = plot.y(at) - plot.y(at * 2)
    return atan2(dy, dx)


def _line(x0: float, y0: float, x1: float, y1: float, style: str) -> str:
    return tag("line", x1=f"{x0:.1f}", y1=f"{y0:.1f}", x2=f"{x1:.1f}", y2=f"{y1:.1f}", style=style)


def _dot(x: float, y: float, radius: int, title: str, style: str) -> str:
    return tag("circle", tag("title", title), cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius, style=style)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return tag("text", escape(text), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _speed(gflops: float) -> str:
    return f"{gflops / 1e3:.1f} Tflop/s" if gflops >= 1e3 else f"{gflops:.3g} Gflop/s"


def _short(gflops: float) -> str:
    return f"{gflops / 1e3:g}T" if gflops >= 1e3 else f"{gflops:g}G"
