"""The report of one benchmark: a single HTML file that needs no network, opens from disk, and says why where it cannot.

The page holds plotly itself (packed; the page unpacks it) and forbids, by its content security policy, every script
but these two and every request, so that text from result files could do nothing even if it became markup.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from capeval_pipeline.counting import counted
from capeval_pipeline.errors import CapevalError
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.figures.spec import Figure
from capeval_pipeline.reporting.markup import escaped, json_block, prose, sql_block, table
from capeval_pipeline.reporting.numbers import UNKNOWN, covered, errors_count, number
from capeval_pipeline.reporting.plotly_script import digest, packed_plotly, plotly_digest
from capeval_pipeline.reporting.queries import Answer, Query, Row, ask
from capeval_pipeline.reporting.sections import SECTIONS, STUDIES, Drawing, Section
from capeval_pipeline.reporting.verdict_list import Sentence, about, in_order, why_nothing
from capeval_pipeline.reporting.views import View

if TYPE_CHECKING:
    import duckdb

GENERATOR = "capeval report"
NOTHING = "Nothing to show: not computed."


class Reader:
    """Answers of one benchmark, each query run once."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", benchmark_id: str) -> None:
        self._connection = connection
        self._benchmark_id = benchmark_id
        self._answers: dict[str, Answer] = {}

    def answer(self, query: Query) -> Answer:
        """Rows and SQL of a query."""
        if query.name not in self._answers:
            self._answers[query.name] = ask(self._connection, query, self._benchmark_id)
        return self._answers[query.name]


def render_page(connection: "duckdb.DuckDBPyConnection", benchmark_id: str) -> str:
    """The report of a benchmark as HTML text: the same tables give the same text.

    connection: the published database. Raises CapevalError where the benchmark is not in it.
    """
    reader = Reader(connection, benchmark_id)
    found = reader.answer(queries.HEADER).rows
    if not found:
        raise CapevalError(f"benchmark {benchmark_id!r} is not in the published database; `capeval run` publishes it")
    sentences = in_order(reader.answer(queries.VERDICTS).rows)
    parts = [_section(section, reader, sentences) for section in SECTIONS]
    body = [
        '<a class="unseen" href="#answers">Skip to the answers</a>',
        _header(benchmark_id, found[0]),
        _answers(sentences),
        _contents(),
        "<main>",
        *parts,
        "</main>",
        _footer(found[0]["pipeline_version"] or ""),
    ]
    return document(f"{benchmark_id}: capability report", "\n".join(body), has_figures=True)


def render_studies(connection: "duckdb.DuckDBPyConnection") -> str:
    """The page of the studies on synthetic worlds as HTML text; "" where none has been made."""
    reader = Reader(connection, "")
    has_rows = any(
        reader.answer(query).rows for section in STUDIES for drawing in section.drawings for query in drawing.queries
    )
    if not has_rows:
        return ""
    about_page = (
        "Worlds made up with a known truth: what the figures on luck can be trusted with, whatever the benchmark."
    )
    links = "".join(f'<li><a href="#{section.id}">{escaped(section.heading)}</a></li>' for section in STUDIES)
    body = [
        f'<header><h1>Studies on synthetic worlds</h1><p class="facts">{escaped(about_page)}</p></header>',
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
        "<main>",
        *[_section(section, reader, []) for section in STUDIES],
        "</main>",
    ]
    return document("Studies on synthetic worlds", "\n".join(body), has_figures=True)


def document(title: str, body: str, *, has_figures: bool) -> str:
    """A whole HTML file around a body: style, policy and, with figures, the script and plotly."""
    script = _asset("page.js")
    allowed = f"'sha256-{digest(script.encode())}' 'sha256-{plotly_digest()}'" if has_figures else "'none'"
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    scripts = (
        f'<script type="text/plain" id="plotly-packed">{packed_plotly()}</script>\n<script>{script}</script>\n'
        if has_figures
        else ""
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{GENERATOR}">\n<meta name="referrer" content="no-referrer">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n{body}\n{scripts}"
        "</body>\n</html>\n"
    )


def _footer(version: str) -> str:
    return (
        f"<footer><p>Made by capeval {escaped(version)} from the published tables alone; every number can be had again "
        "with the SQL beside it. Intervals are 95 % unless a heading says otherwise.</p></footer>"
    )


def _header(benchmark_id: str, facts: Row) -> str:
    n_cells = facts["n_models"] * facts["n_items"]
    coverage = covered(facts["n_scored_cells"] / n_cells) if n_cells else UNKNOWN
    sizes = [counted(facts["n_models"], "model"), counted(facts["n_items"], "item")]
    if facts["n_generations"]:
        sizes.append(f"{counted(facts['n_generations'], 'answer')}, {coverage} of the cells have a score")
    if facts["n_judgments"]:
        sizes.append(f"{counted(facts['n_judgments'], 'judgment')} of pairs")
    low, high = facts["score_low"], facts["score_high"]
    scale = f"score {facts['metric'] or ''} {number(low)} to {number(high)}".replace("  ", " ")
    direction = "larger is better" if facts["higher_is_better"] else "smaller is better"
    if facts["error_policy"]:
        direction += f", {errors_count(facts['error_policy'])}"
    made = f"{facts['made_at']:%Y-%m-%d %H:%M} UTC" if facts["made_at"] else UNKNOWN
    version = escaped(facts["data_version"] or UNKNOWN)
    return (
        f"<header><h1>{escaped(benchmark_id)}</h1>"
        f'<p class="facts">{escaped(" · ".join(sizes))}</p>'
        f'<p class="facts">{escaped(scale)}, {direction} · data version <code>{version}</code> of {escaped(made)}</p>'
        "</header>"
    )


def _answers(sentences: Sequence[Sentence]) -> str:
    section_of = {question: section.id for section in SECTIONS for question in section.questions}

    def item(entry: Sentence) -> str:
        name = escaped(entry.name)
        target = section_of.get(entry.question)
        head = f'<a href="#{target}">{name}</a>' if target else name
        return f'<li><span class="question">{head}:</span> {prose(entry.sentence)}</li>'

    told = "".join(item(entry) for entry in sentences if entry.is_computed)
    untold = [entry for entry in sentences if not entry.is_computed]
    parts = ['<section aria-labelledby="answers"><h2 id="answers">In short</h2>']
    parts.append(f'<ul class="answers">{told}</ul>' if told else '<p class="nothing">Nothing is computed yet.</p>')
    if untold:
        rows = "".join(item(entry) for entry in untold)
        parts.append(
            f"<details><summary>{counted(len(untold), 'question')} without an answer, and why</summary>"
            f'<ul class="answers none">{rows}</ul></details>'
        )
    return "".join([*parts, "</section>"])


def _contents() -> str:
    links = "".join(f'<li><a href="#{section.id}">{escaped(section.heading)}</a></li>' for section in SECTIONS)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _section(section: Section, reader: Reader, sentences: Sequence[Sentence]) -> str:
    told = [entry for entry in about(sentences, section.questions) if entry.is_computed]
    parts = [f'<section aria-labelledby="{section.id}"><h2 id="{section.id}">{escaped(section.heading)}</h2>']
    parts += [f'<p class="lead">{prose(entry.sentence)}</p>' for entry in told]
    if section.about:
        parts.append(f'<p class="note">{escaped(section.about)}</p>')
    instead = [view.instead(reader.answer(view.query).rows) for view in section.views]
    reasons: list[str] = []
    for drawing in section.drawings:
        answers = [reader.answer(query) for query in drawing.queries]
        figure = drawing.build(*(answer.rows for answer in answers))
        if figure is None and drawing.is_optional:
            continue
        if figure is None:
            nothing = next(filter(None, instead), drawing.nothing)
            reasons.append(why_nothing(sentences, section.reasons or section.questions, nothing))
        else:
            parts.append(_figure(drawing, figure, ";\n\n".join(answer.sql for answer in answers)))
    parts += [f'<p class="nothing">{prose(reason)}</p>' for reason in reasons[:1]]
    for view, sentence in zip(section.views, instead, strict=True):
        rows = reader.answer(view.query).rows
        if rows and not sentence:
            parts.append(_table(view, reader))
        elif not reasons:
            reasons.append(why_nothing(sentences, section.reasons or section.questions, sentence or NOTHING))
            parts.append(f'<p class="nothing">{prose(reasons[0])}</p>')
    parts += [_table(view, reader) for view in section.optional if reader.answer(view.query).rows]
    return "".join([*parts, "</section>"])


def _figure(drawing: Drawing, figure: Figure, sql: str) -> str:
    spec_id = f"spec-{drawing.name}"
    note = f"<figcaption>{escaped(figure.note)}</figcaption>" if figure.note else ""
    return (
        f'<figure><div class="plot" id="plot-{drawing.name}" role="img" data-spec="{spec_id}" '
        f'aria-label="{escaped(figure.description)}" style="min-height:{figure.layout["height"]}px">'
        f"<noscript>{escaped(figure.description)}</noscript></div>{note}{sql_block(sql, 'the figure')}</figure>"
        f"{json_block(spec_id, figure.as_dict())}"
    )


def _table(view: View, reader: Reader) -> str:
    answer = reader.answer(view.query)
    return table(view, answer.rows, answer.sql)


@cache
def _asset(name: str) -> str:
    return (resources.files("capeval_pipeline.reporting") / name).read_text(encoding="utf-8")
