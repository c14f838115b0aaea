"""Every number on a page is one of the published tables: the SQL shown beside it, run again, holds it in that row."""

import html
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from capeval_pipeline.reporting.page import render_page, render_studies
from capeval_pipeline.reporting.queries import ask
from capeval_pipeline.reporting.sections import SECTIONS, STUDIES
from tests.reporting.published import QUIZ

NUMBER = re.compile(r"(?<![\w.])[−-]?\$?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
TABLE = re.compile(
    r"<caption><span>(?P<caption>.*?)</span>.*?<thead>(?P<head>.*?)</thead><tbody>(?P<body>.*?)</tbody>.*?"
    r"<code>(?P<sql>.*?)</code>",
    re.DOTALL,
)
VIEWS = [view for section in (*SECTIONS, *STUDIES) for view in (*section.views, *section.optional)]
DRAWINGS = [drawing for section in (*SECTIONS, *STUDIES) for drawing in section.drawings]


def plain_text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).replace("\u00a0", " ")


def tables_of(page: str) -> dict[str, tuple[list[str], list[list[str]], str]]:
    """Caption → headings, cells and SQL as a reader of the page finds them."""
    found = {}
    for part in TABLE.finditer(page):
        heads = [plain_text(cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", part["head"])]
        rows = [
            [plain_text(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", part["body"], re.DOTALL)
        ]
        found[plain_text(part["caption"])] = (heads, rows, html.unescape(part["sql"]))
    return found


def flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat(value)
        else:
            yield value


def as_written(text: str) -> tuple[float, float]:
    """A number of the page and half a unit of its last digit."""
    bare = text.replace("−", "-").replace("$", "").replace(",", "")
    decimals = len(bare.partition(".")[2].partition("e")[0])
    power = int(bare.partition("e")[2] or 0)
    return float(bare), 0.5 * 10.0 ** (power - decimals)


def is_of_row(text: str, row: Mapping[str, Any], *, is_percent: bool) -> bool:
    """Whether a number is a value of the row, rounded: as it is, or times 100 before a percent sign."""
    number, half = as_written(text)
    values = [value for value in flat(row.values()) if isinstance(value, int | float) and not isinstance(value, bool)]
    factors = (100.0, 1.0) if is_percent else (1.0,)
    # three significant digits are written of free numbers: half a unit of the third
    slack = max(half, 0.5 * 10 ** (math.floor(math.log10(abs(number))) - 2) if number and "." not in text else half)
    return any(
        abs(value * factor - number) <= slack * 1.000001 for value in values for factor in factors if value == value
    )


def strange_numbers(cell: str, row: Mapping[str, Any]) -> list[str]:
    """Numbers in a cell that the row does not hold, and that are no part of one of its texts."""
    texts = [str(value) for value in flat(row.values()) if isinstance(value, str)]
    texts += [f"{value:%Y-%m-%d %H:%M:%S}" for value in flat(row.values()) if isinstance(value, datetime)]
    strange = []
    for found in NUMBER.finditer(cell):
        rest = cell[found.end() :]
        is_percent = bool(re.match(r"( to [−-]?[\d.,]+)* ?%", rest))
        if not is_of_row(found[0], row, is_percent=is_percent) and not any(found[0] in text for text in texts):
            strange.append(found[0])
    return strange


@pytest.fixture(scope="module")
def pages(planted) -> dict[str, tuple[list[str], list[list[str]], str]]:
    from capeval_pipeline.storage.warehouse import open_published

    with open_published(planted) as connection:
        return tables_of(render_page(connection, QUIZ)) | tables_of(render_studies(connection))


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_table_holds_what_its_sql_gives(connection, pages, view):
    captions = [caption for caption in pages if caption.startswith(view.caption)]
    assert captions, "it is on no page"
    heads, rows, sql = pages[captions[0]]
    answer = connection.sql(sql).to_arrow_table().to_pylist()
    assert heads == [column.heading for column in view.columns]
    assert len(rows) == min(200, len(answer))
    strange = {
        (heads[at], cell, number)
        for cells, row in zip(rows, answer, strict=False)
        for at, cell in enumerate(cells)
        for number in strange_numbers(cell, row)
    }
    assert strange == set()
    assert any(NUMBER.search(cell) for cells in rows for cell in cells)


def numbers_drawn(value: Any) -> Iterator[float]:
    """Coordinates and lengths of a trace: what the reader takes for a number of the data."""
    for trace in value:
        # a filled band over rows of names lies between places, which are no data
        for name in ("x", "z") if trace.get("fill") == "toself" else ("x", "y", "z"):
            yield from (entry for entry in flat([trace.get(name)]) if isinstance(entry, float))
        for name in ("error_x", "error_y"):
            bars = trace.get(name) or {}
            yield from (
                entry
                for part in ("array", "arrayminus")
                for entry in flat([bars.get(part)])
                if isinstance(entry, float)
            )


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_figure_draws_values_of_its_sql_and_distances_between_them(connection, drawing):
    answers = [ask(connection, query, QUIZ) for query in drawing.queries]
    again = [connection.sql(answer.sql).to_arrow_table().to_pylist() for answer in answers]
    figure = drawing.build(*again)
    assert figure is not None
    rows = [row for answer in again for row in answer]
    values = {
        round(factor * value, 9)
        for row in rows
        for value in flat(row.values())
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value
        for factor in (1.0, 100.0)
    }
    distances = {
        round(abs(one - other), 6)
        for row in rows
        for one, other in itertools.combinations(
            [value for value in row.values() if isinstance(value, float) and value == value], 2
        )
    }
    strange = [
        number
        for number in numbers_drawn(figure.data)
        if number == number and round(number, 9) not in values and round(abs(number), 6) not in distances
    ]
    assert strange == []
