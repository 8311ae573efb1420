"""Pictures of the page for the documents: python -m tests.report.screenshots, from the root of the repository."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import tilewright as tw
from tests.report.browser import Browser, browser
from tilewright.report.html import write_html
from tilewright.report.profile import Profile, profile_kernel

# The kernels import nki, which only exists once tilewright is active: hence imports within functions.
IMAGES = Path(__file__).parents[2] / "docs" / "images"


def matmul() -> Profile:
    """A blocked float32 matmul of 2048 x 2048 matrices."""
    from bench.calibration.kernels.matmul_blocked import blocked

    matrix = tw.spec((2048, 2048), "float32")
    return profile_kernel(blocked, (matrix, matrix), {}, "trn2")


def attention() -> Profile:
    """examples/attention_nki.py on 2048 keys."""
    from examples.attention_nki import attention_kernel

    columns, rows = tw.spec((128, 2048), "float32"), tw.spec((2048, 128), "float32")
    return profile_kernel(attention_kernel, (columns, columns, rows), {}, "trn2")


def take(window: Browser, folder: Path, name: str, profile: Profile, scheme: str, *keys: str) -> None:
    """Save the picture of a profile's page after pressing keys."""
    write_html(folder / "report.html", profile)
    window.prefer(scheme)
    window.open(folder / "report.html")
    for key in keys:
        window.key(key)
    window.painted()
    window.screenshot(IMAGES / name, whole=True)


if __name__ == "__main__":
    tw.activate()
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as temporary, browser(Path(temporary)) as made:
        made.size(1440, 1000)
        take(made, Path(temporary), "report-matmul.png", matmul(), "light")
        take(made, Path(temporary), "report-attention.png", attention(), "dark", "c")
