"""The page: one file that nothing in the data can break out of, the same bytes each time, readable without figures."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

from capeval_pipeline import reporting
from capeval_pipeline.errors import CapevalError
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.index import render_index
from capeval_pipeline.reporting.markup import escaped, prose
from capeval_pipeline.reporting.page import render_page, render_studies
from capeval_pipeline.reporting.queries import Query, ask
from capeval_pipeline.reporting.sections import SECTIONS, STUDIES
from capeval_pipeline.reporting.views import CLUSTERS, clusters_alike
from capeval_pipeline.reporting.writing import write_pages, write_text
from capeval_pipeline.storage.sql_models import load_project
from capeval_pipeline.storage.warehouse import open_published
from tests.reporting.published import BARE, HOSTILE_MODEL, QUIZ, publish

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Elements of a page: scripts with their types, headings, tables with captions, ids, unbalanced tags."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.headings: list[int] = []
        self.tables: list[bool] = []
        self.ids: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.elements: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append(given)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "table":
            self.tables.append(False)
        if tag == "caption":
            self.tables[-1] = True
        if "id" in given:
            self.ids.append(str(given["id"]))
        if given.get("role") == "img":
            self.images.append(given)
        if tag == "a":
            self.links.append(str(given["href"]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()


@pytest.fixture
def page(connection) -> str:
    return render_page(connection, QUIZ)


def test_every_query_runs_as_it_is_shown_on_a_published_database(connection):
    for query in [entry for entry in vars(queries).values() if isinstance(entry, Query)]:
        answer = ask(connection, query, QUIZ)
        assert connection.execute(answer.sql).fetchall() is not None
        assert "$benchmark" not in answer.sql


def test_a_quote_in_a_benchmark_name_stays_inside_the_sql_text(connection):
    assert ask(connection, queries.LEADERBOARD, "it's' or true --").rows == []


def test_the_same_tables_give_the_same_bytes(connection, page):
    assert render_page(connection, QUIZ) == page


def test_text_from_the_data_never_becomes_markup(page):
    outline = Outline(page)
    assert outline.open == []
    kinds = [script.get("type") for script in outline.scripts]
    n_figures = sum(len(section.drawings) for section in SECTIONS)
    assert kinds.count(None) == 1, "the page's own script is the only one that runs"
    assert kinds.count("application/json") == n_figures
    assert not outline.elements & {"img", "b", "i", "u", "iframe", "object"}
    assert "window.hacked" in page, "the hostile text is shown"


def test_nothing_outside_the_page_is_named_by_a_link_or_source(page):
    outline = Outline(page)
    assert all(link.startswith("#") for link in outline.links)
    own = page[: page.index('id="plotly-packed"')]
    assert not re.search(r'(?:src|href)="(?!#|data:)', own)
    assert "default-src 'none'" in own


def test_headings_come_in_order_and_every_table_has_a_caption(page):
    outline = Outline(page)
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    assert outline.tables
    assert all(outline.tables)
    assert len(outline.ids) == len(set(outline.ids))


def test_every_figure_has_a_description_and_every_link_a_target(page):
    outline = Outline(page)
    assert outline.images
    assert all(image["aria-label"] for image in outline.images)
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)


def test_the_page_is_small_enough_to_mail(page):
    assert len(page.encode()) < 3_000_000


def test_a_benchmark_without_results_says_why_instead_of_drawing(connection):
    text = render_page(connection, BARE)
    assert "no item has a prompt or an embedding." in text
    assert "no cost is known." in text
    assert Outline(text).images == []


def test_studies_have_a_page_of_their_own_where_they_were_made(connection, empty_connection):
    outline = Outline(render_studies(connection))
    assert len(outline.images) == sum(len(section.drawings) for section in STUDIES)
    assert render_studies(empty_connection) == ""


def test_nothing_estimated_yet_still_gives_a_page(empty_connection):
    outline = Outline(render_page(empty_connection, QUIZ))
    assert outline.images == []
    assert outline.headings[0] == 1


def test_clusters_that_are_all_alike_are_one_sentence_and_no_table(tmp_path):
    path = publish(tmp_path / "capeval.duckdb")
    with duckdb.connect(str(path)) as writing:
        writing.execute("update estimates.clusters set weight = 1.0 / 3")
        writing.execute("update estimates.cluster_strengths set is_compared = false")
        key = "marts.cluster_leaderboard"
        writing.execute(f"create or replace table {key} as {load_project().models[key].sql}")
    with open_published(path) as connection:
        text = render_page(connection, QUIZ)
        rows = ask(connection, queries.CLUSTERS, QUIZ).rows
    told = clusters_alike(rows)
    assert told.startswith("The comparisons do not tell the 3 clusters apart: each holds about 33.3 % of the items")
    assert text.count(prose(told)) == 1
    assert escaped(CLUSTERS.caption) not in text


def test_clusters_of_different_sizes_or_with_a_compared_model_are_listed(connection):
    rows = ask(connection, queries.CLUSTERS, QUIZ).rows
    assert clusters_alike(rows) == ""
    assert clusters_alike([row | {"n_compared": 0} for row in rows]) == ""
    assert clusters_alike([row | {"weight": 0.25} for row in rows]) == ""
    assert clusters_alike([]) == ""


def test_a_line_never_breaks_before_a_percent_sign(page):
    assert "9.3\u00a0% better" in page


def test_an_unknown_benchmark_is_refused(connection):
    with pytest.raises(CapevalError, match="not in the published database"):
        render_page(connection, "nosuch")


def test_the_index_lists_benchmarks_with_their_first_sentence(connection):
    text = render_index(connection)
    outline = Outline(text)
    assert len(outline.links) == 2
    assert "is ahead by 2.1 points" in text
    assert HOSTILE_MODEL not in text
    assert outline.scripts == []


def test_pages_of_benchmarks_that_are_gone_are_removed_and_others_files_kept(connection, tmp_path):
    write_text(tmp_path / "gone.html", '<meta name="generator" content="capeval report">')
    write_text(tmp_path / "mine.html", "notes of somebody")
    written = write_pages(connection, tmp_path, [BARE])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*(path.name for path in written), "mine.html"])


def test_a_page_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "index.html"
    write_text(path, "old")

    def broken(_source: Path, _target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="no space left"):
        write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05), the lighter first."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_lines_stand_out_from_their_ground(theme):
    css = (Path(reporting.__file__).parent / "page.css").read_text(encoding="utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    colours = dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", light))
    if theme == "dark":
        colours |= dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", dark.split("@media")[0]))
    for text in ("--ink", "--muted", "--link"):
        for ground in ("--paper", "--shade"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for index in range(1, 9):
        assert contrast(colours[f"--series-{index}"], colours["--paper"]) >= 4.5
    for cell in ("--low", "--middle", "--high"):
        assert contrast(colours["--ink"], colours[cell]) >= 4.5, cell
