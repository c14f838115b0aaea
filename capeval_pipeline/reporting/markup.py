"""HTML text from values: the one place where text from the data becomes markup, always escaped."""

import html
import json
from collections.abc import Sequence
from typing import Any

from capeval_pipeline.counting import counted
from capeval_pipeline.reporting.queries import Row
from capeval_pipeline.reporting.views import View

MAX_ROWS = 200
"""Rows of a table in a page; the SQL beside it gives the rest."""


def escaped(text: Any) -> str:
    """Text that shows as it is, also inside a quoted attribute; characters HTML does not allow become U+FFFD."""
    allowed = "".join(sign if sign >= " " or sign in "\n\t" else "\ufffd" for sign in str(text))
    return html.escape(allowed, quote=True)


def prose(text: Any) -> str:
    """A sentence as markup; a line never breaks between a number and its percent sign."""
    return escaped(text).replace(" %", "\u00a0%")


def json_block(element_id: str, value: Any) -> str:
    """JSON inside a script element of type application/json; no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{escaped(element_id)}">{safe}</script>'


def sql_block(sql: str, name: str) -> str:
    """The SQL of a figure or table, folded away; one click inside selects all of it."""
    return (
        f'<details class="sql"><summary>Show the SQL<span class="unseen"> of {escaped(name)}</span></summary>'
        f'<pre tabindex="0"><code>{escaped(sql)}</code></pre></details>'
    )


def table(view: View, rows: Sequence[Row], sql: str) -> str:
    """A table with caption, column headings as header cells, the first text column as row headers, and its SQL."""
    shown = rows[:MAX_ROWS]
    row_header = next((index for index, column in enumerate(view.columns) if not column.is_number), 0)
    heads = "".join(
        f'<th scope="col"{_side(column.is_number)}>{escaped(column.heading)}</th>' for column in view.columns
    )
    body = []
    for row in shown:
        cells = []
        for index, column in enumerate(view.columns):
            text = escaped(column.cell(row))
            cells.append(
                f'<th scope="row"{_side(column.is_number)}>{text}</th>'
                if index == row_header
                else f"<td{_side(column.is_number)}>{text}</td>"
            )
        body.append(f"<tr>{''.join(cells)}</tr>")
    caption = escaped(view.caption)
    if len(rows) > len(shown):
        caption += f" First {len(shown)} of {counted(len(rows), 'row')}; the SQL below gives all."
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(view.caption)}">'
        f"<table><caption><span>{caption}</span></caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>{sql_block(sql, 'the table')}"
    )


def _side(is_number: bool) -> str:
    return ' class="number"' if is_number else ""
