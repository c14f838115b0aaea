"""Figures: valid for plotly, nothing drawn for nothing computed, names that are no markup."""

import warnings
from typing import Any

import pytest

from capeval_pipeline.reporting.figures.ecc_gains import ecc_gains
from capeval_pipeline.reporting.figures.frontier import frontier
from capeval_pipeline.reporting.figures.leaderboard import leaderboard
from capeval_pipeline.reporting.figures.spec import log_cost_ticks
from capeval_pipeline.reporting.queries import ask
from capeval_pipeline.reporting.sections import SECTIONS, STUDIES
from tests.reporting.published import HOSTILE_MODEL, QUIZ, frontier_tables

DRAWINGS = [drawing for section in (*SECTIONS, *STUDIES) for drawing in section.drawings]


def drawn(connection: Any, drawing: Any, benchmark_id: str = QUIZ) -> Any:
    return drawing.build(*(ask(connection, query, benchmark_id).rows for query in drawing.queries))


def visible(value: Any) -> Any:
    """The specification with its colour names replaced, as the page's script does before it draws."""
    if isinstance(value, str) and value.startswith("--"):
        return "#123456"
    if isinstance(value, dict):
        return {key: visible(part) for key, part in value.items()}
    return [visible(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_figure_is_valid_for_plotly(connection, drawing):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import plotly.graph_objects as go
    figure = drawn(connection, drawing)
    go.Figure(visible(figure.as_dict()))
    assert figure.description


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_nothing_computed_draws_nothing(empty_connection, drawing):
    assert drawn(empty_connection, drawing) is None


def test_names_in_a_figure_are_no_markup(connection):
    for drawing in DRAWINGS:
        text = str(drawn(connection, drawing).as_dict())
        assert HOSTILE_MODEL not in text
        assert "<b>bold" not in text
        assert "<script" not in text


def test_a_leaderboard_shows_forty_models_and_says_how_many_there_are():
    rows = [
        {
            "model_id": f"m{place}",
            "mean_score": 1 - place / 100,
            "score_lower": None,
            "score_upper": None,
            "rank": place + 1,
            "rank_lower": 1,
            "rank_upper": 60,
            "tie_group": 1,
            "n_items": 10,
        }
        for place in range(60)
    ]
    figure = leaderboard(rows)
    assert figure is not None
    assert sum(len(trace["x"]) for trace in figure.data) == 40
    assert "first 40 of 60" in figure.note


def test_the_control_line_crosses_only_methods_that_have_seen_the_pair(connection):
    figure = drawn(connection, next(drawing for drawing in DRAWINGS if drawing.build is ecc_gains))
    names = figure.layout["yaxis"]["ticktext"]
    n_before = sum("no answer seen" in name for name in names)
    dotted = next(shape for shape in figure.layout["shapes"] if shape["line"].get("dash") == "dot")
    assert dotted["x0"] == 50.0
    assert dotted["y0"] == n_before - 0.5


MODELS = [
    {"model_id": "cheap", "quality": 0.5, "cost_usd": 0.001, "n_items": 9},
    {"model_id": "dear", "quality": 0.8, "cost_usd": 0.1, "n_items": 9},
]


def frontier_under(verdict: str) -> Any:
    tables = frontier_tables(verdict)
    return frontier(tables["estimates.frontier_points"], MODELS, tables["estimates.frontier_diagnostics"])


def names_of(figure: Any) -> list[str]:
    return [trace["name"] for trace in figure.data]


def test_a_point_verdict_draws_the_debiased_curve_with_its_band():
    figure = frontier_under("point")
    assert "best choice per item, luck removed" in names_of(figure)
    assert "95 % band of the best choice" in names_of(figure)
    assert not figure.layout["annotations"]


@pytest.mark.parametrize(
    ("verdict", "written", "drawn_instead"),
    [
        ("bracket_only", "bracket only", "between these bounds"),
        ("upper_bound_only", "upper bound only", "upper bound"),
    ],
)
def test_a_refusal_is_written_in_the_figure_and_no_single_curve_is_drawn(verdict, written, drawn_instead):
    figure = frontier_under(verdict)
    assert written in figure.layout["annotations"][0]["text"]
    assert drawn_instead in names_of(figure)
    assert "best choice per item, luck removed" not in names_of(figure)


def test_the_naive_curve_is_dotted_and_called_biased():
    naive = next(trace for trace in frontier_under("point").data if "naive" in trace["name"])
    assert "biased" in naive["name"]
    assert naive["line"]["dash"] == "dot"


def test_ticks_of_a_cost_axis_are_dollars_inside_the_range():
    ticks = log_cost_ticks([0.0012, 0.03], "$")
    assert ticks["ticktext"] == ["$0.002", "$0.005", "$0.01", "$0.02"]
