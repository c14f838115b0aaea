"""The numeric list of the design on real benchmarks and a planted world: every figure in its range, or why not."""

from pathlib import Path

import pytest

from benchmarks.ecc_figures import BENCHMARKS, figures, made_part

pytestmark = pytest.mark.slow

ELSEWHERE: dict[tuple[str, str], tuple[float, float, str]] = {}
"""(benchmark, figure) whose range is another one than asked: low, high, and the reason."""


@pytest.mark.parametrize("benchmark_name", ["routerbench_part", "llmrouter_dc9", "ecc_planted_a"])
def test_the_figures_are_those_of_the_design(benchmark_name, shared: Path):
    found = list(figures(benchmark_name, made_part(shared, benchmark_name)))
    outside = []
    for figure in found:
        low, high, _ = ELSEWHERE.get((figure.benchmark, figure.line), (figure.low, figure.high, ""))
        if not low <= figure.measured <= high:
            outside.append((figure.line, figure.asked, round(figure.measured, 2)))
    assert outside == []
    assert len(found) >= 8
    assert benchmark_name in BENCHMARKS
