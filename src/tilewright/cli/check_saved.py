"""`tilewright check FOLDER`: a kernel that was saved because it was wrong, once more, and what is compiled today."""

from __future__ import annotations

from tilewright.cli.common import Exit, show, show_json
from tilewright.compiler import Compiled, CompileOptions
from tilewright.examine import Examined
from tilewright.front.function import of_graph
from tilewright.reproduction import Reproduction, load


def check_saved(folder: str, as_json: bool) -> int:
    """Run a reproduction: the kernel as it was saved, and the one that its program is compiled to now."""
    saved = load(folder)
    found = {"as it was saved": saved.run(), "compiled anew": _compiled_anew(saved)}
    code = Exit.OK if all(each.problem is None for each in found.values()) else Exit.KERNEL
    if as_json:
        results = {name: {"problem": each.problem, "notes": list(each.notes)} for name, each in found.items()}
        show_json({"folder": folder, "exit_code": code, "target": saved.target.name, "kernels": results})
        return code
    for name, each in found.items():
        verdict = "agrees with the program as traced" if each.problem is None else f"is wrong: {each.problem}"
        show(f"{saved.program.name} for {saved.target.name}: the kernel {name} {verdict}")
        for note in each.notes:
            show(f"  note: {note}")
    return code


def _compiled_anew(saved: Reproduction) -> Examined:
    options = CompileOptions.checked(**saved.options)
    return Compiled(of_graph(saved.program), saved.target, options).examine(*saved.arrays)[0]
