"""The index page: every benchmark with its first sentence and a link to its report."""

from typing import TYPE_CHECKING

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting import queries
from capeval_pipeline.reporting.markup import escaped, prose, sql_block
from capeval_pipeline.reporting.numbers import UNKNOWN, count
from capeval_pipeline.reporting.page import document
from capeval_pipeline.reporting.queries import Row, ask
from capeval_pipeline.storage.lake import benchmark_key

if TYPE_CHECKING:
    import duckdb


def page_name(benchmark_id: str) -> str:
    """File name of a benchmark's report."""
    return f"{benchmark_key(benchmark_id)}.html"


def render_index(connection: "duckdb.DuckDBPyConnection", studies_page: str = "") -> str:
    """The index page as HTML text; studies_page: file name of the studies' page, "" where there is none."""
    answer = ask(connection, queries.FIRST_SENTENCES)
    rows = "".join(_row(row) for row in answer.rows)
    heads = '<th scope="col">benchmark</th><th scope="col" class="number">models</th><th scope="col">in short</th>'
    content = (
        f'<div class="scroll" role="region" tabindex="0" aria-label="Benchmarks"><table>'
        f"<caption><span>{counted(len(answer.rows), 'benchmark')}; each name leads to its report.</span></caption>"
        f'<thead><tr>{heads}<th scope="col">data version</th></tr></thead><tbody>{rows}</tbody></table></div>'
        if answer.rows
        else '<p class="nothing">No benchmark is published yet; <code>capeval ingest</code> reads result files.</p>'
    )
    studies = (
        f'<p><a href="{escaped(studies_page)}">Studies on synthetic worlds</a>: how far the figures on luck can be '
        "trusted.</p>"
        if studies_page
        else ""
    )
    body = (
        f'<header><h1>Capability reports</h1><p class="facts">{counted(len(answer.rows), "benchmark")}</p></header>'
        f"<main>{content}{studies}{sql_block(answer.sql, 'the table')}</main>"
    )
    return document("Capability reports", body, has_figures=False)


def _row(row: Row) -> str:
    name = escaped(row["benchmark_id"])
    return (
        f'<tr><th scope="row"><a href="{escaped(page_name(row["benchmark_id"]))}">{name}</a></th>'
        f'<td class="number">{count(row["n_models"])}</td>'
        f"<td>{prose(row['sentence'] or 'Nothing is computed yet.')}</td>"
        f"<td><code>{escaped((row['data_version'] or UNKNOWN)[:12])}</code></td></tr>"
    )
