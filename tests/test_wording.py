"""Counts are told with their noun in one way, so that nobody reads "1 items"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from capeval_pipeline.counting import counted

PACKAGE = Path(__file__).resolve().parents[1] / "capeval_pipeline"
NOUNS = (
    "answers arms benchmarks calls cells clusters comparisons dimensions documents draws faults files folders "
    "generations groups items judgments lines models names pages pairs policies records replays rows runs sentences "
    "steps tables votes samples entries questions members values categories logs tests prices others units"
    " epochs"
)
PLURAL = re.compile(rf"^ (?:[a-z-]+ ){{0,2}}(?:{NOUNS.replace(' ', '|')})\b")
A_COUNT = re.compile(r"\bn_|\blen\(|_n_|\.size\b|\bcount\(|n_rows|\.repeats\b")
# told only where there are two or more
ALWAYS_SEVERAL = re.compile(
    r"n_clusters|n_categories|n_components|n_all|n_broken|n_bytes|repeats|n_samples|members|MAX_NAMES|^len\(order\)$|^counted\("
)
# errors of arguments, read by who writes code
FOR_PROGRAMMERS = ("methods/",)


@pytest.mark.parametrize(
    ("n", "told"), [(0, "0 items"), (1, "1 item"), (1.0, "1 item"), (2000, "2,000 items"), (None, "– items")]
)
def test_a_count_and_its_noun(n, told):
    assert counted(n, "item") == told


def bare_plurals() -> Iterator[str]:
    """Places where a formatted value is followed by a noun in the plural, whatever the value is."""
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        if inside.startswith(FOR_PROGRAMMERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            for value, after in zip(node.values, node.values[1:], strict=False):
                if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                    continue
                expression = ast.unparse(value.value)
                found = PLURAL.match(str(after.value))
                if found and A_COUNT.search(expression) and not ALWAYS_SEVERAL.search(expression):
                    yield f"{inside}:{value.lineno}: {{{expression}}}{found[0]}"


def test_no_count_stands_before_a_bare_plural():
    assert list(bare_plurals()) == []
