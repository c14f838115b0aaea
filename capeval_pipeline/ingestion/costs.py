"""What an answer cost: as reported, as recomputed from tokens and prices, and what is odd about either."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa

from capeval_pipeline.formats.refusals import one_line
from capeval_pipeline.ingestion.identity import spelled

MISMATCH = 0.01
MIN_CONSTANT_ROWS = 5
CLASSES = ("input", "output", "cache_read", "cache_write")
UNKNOWN_DAY, FIRST_DAY, LAST_DAY = -1_000_000, -999_999, 10_000_000
PRICED_ON = f"coalesce(date_diff('day', date '1970-01-01', ({{time}})::date), {UNKNOWN_DAY})::int"
"""Day since 1970 of a point in time, UNKNOWN_DAY for NULL."""
PRICE_JOIN = "prices.model_id = models.model_id and priced_on >= prices.first_day and priced_on <= prices.last_day"

_HAS_TOKENS = "input_tokens is not null and output_tokens is not null"
_PARTS = " + ".join(
    f"coalesce({name}_tokens, 0) * if(coalesce({name}_tokens, 0) = 0, 0, price_{name})" for name in CLASSES
)
_RECOMPUTED = f"""case when price_model is not null and input_tokens is not null and output_tokens is not null
    then ({_PARTS}) / 1e6 end"""
_IS_FREE = f"(cost_reported_usd = 0 and (zero_is_real or {_RECOMPUTED} = 0))"
_COST = f"""case
    when cost_reported_usd > 0 or coalesce({_IS_FREE}, false) then cost_reported_usd else {_RECOMPUTED} end"""
COST_COLUMNS = f"""
    {_RECOMPUTED} as cost_recomputed_usd,
    {_COST} as cost_usd,
    case
        when cost_reported_usd > 0 or coalesce({_IS_FREE}, false) then 'reported'
        when {_RECOMPUTED} is not null then 'recomputed'
        else 'unknown'
    end as cost_source,
    if({_RECOMPUTED} is null, null, price_date) as price_date"""
"""Columns over rows of answers joined with `prices`. A reported 0 or less is not taken for a price."""


def register_prices(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> None:
    """Table `prices`: for each model of the benchmark the price of its id, else of one of its raw names, a row for
    every stretch of days on which it is the same, and one for answers of unknown date.

    Prices are USD per million tokens. On a day on which several dated prices hold, the one that began last counts;
    outside of all of them there is no price. Where no date is known the price that still holds counts, else the last.
    """
    declared = {spelled(name): entries for name, entries in facts["prices"].items()}
    names = connection.execute("select distinct model_id, raw_name from read_models order by all").fetchall()
    chosen: dict[str, Any] = {}
    for model_id, raw_name in names:
        chosen[model_id] = chosen.get(model_id) or declared.get(model_id) or declared.get(spelled(raw_name)) or []
    rows = []
    for model_id, entries in sorted(chosen.items()):
        for first, last, price in stretches(entries):
            row = {"model_id": model_id, "first_day": first, "last_day": last}
            row |= {"price_model": None if price is None else model_id}
            row |= {"price_date": None if price is None else price.get("from")}
            row |= {f"price_{name}": None if price is None else price.get(name) for name in CLASSES}
            rows.append({**row, "zero_is_real": facts["zero_cost"] == "real"})
    schema = pa.schema(
        [("model_id", pa.string()), ("first_day", pa.int32()), ("last_day", pa.int32())]
        + [("price_model", pa.string()), ("price_date", pa.string())]
        + [(f"price_{name}", pa.float64()) for name in CLASSES]
        + [("zero_is_real", pa.bool_())]
    )
    connection.register("prices_read", pa.Table.from_pylist(rows, schema))
    connection.execute("create table prices as select * from prices_read")


def stretches(entries: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, Mapping[str, Any] | None]]:
    """First day, last day (since 1970, both included) and price of every stretch of time; all days are covered.

    entries : prices with optional `from` and `to`, the first and last day on which they hold.
    """
    spans = [
        (_day(entry.get("from"), FIRST_DAY), _day(entry.get("to"), LAST_DAY), number)
        for number, entry in enumerate(entries)
    ]
    starts = sorted(
        {FIRST_DAY, *(first for first, _, _ in spans), *(last + 1 for _, last, _ in spans)} - {LAST_DAY + 1}
    )
    found: list[tuple[int, int, Mapping[str, Any] | None]] = []
    for start, following in zip(starts, [*starts[1:], LAST_DAY + 1], strict=True):
        holding = [span for span in spans if span[0] <= start <= span[1]]
        price = entries[max(holding)[2]] if holding else None
        if found and found[-1][2] is price:
            found[-1] = (found[-1][0], following - 1, price)
        else:
            found.append((start, following - 1, price))
    lasting = max(spans, key=lambda span: (span[1] == LAST_DAY, span[0]), default=None)
    return [(UNKNOWN_DAY, UNKNOWN_DAY, None if lasting is None else entries[lasting[2]]), *found]


def _day(written: str | None, missing: int) -> int:
    return missing if written is None else (date.fromisoformat(written) - date(1970, 1, 1)).days


def cost_warnings(connection: duckdb.DuckDBPyConnection, facts: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Warnings (file_id, location, reason, message), one a file, model and reason: number of rows and one example."""
    told = connection.execute(
        "select count(cost_reported_usd) + count(input_tokens) + count(is_cached) from read_generations"
    ).fetchall()[0]
    if told == (0,):
        return []
    connection.execute(
        f"""create view priced as
        select answers.*, models.model_id, prices.* exclude (model_id), {_RECOMPUTED} as recomputed
        from answers
        inner join model_ids as models using (model_code)
        left join prices on {PRICE_JOIN}
        where answers.status <> 'invalid'"""
    )
    has_prices = bool(facts["prices"])
    differs = f"abs(recomputed - cost_reported_usd) > {MISMATCH} * cost_reported_usd"
    conditions = {
        "cost_negative": ("cost_reported_usd < 0", "a negative cost", "0 or more; it counts as not reported"),
        "cost_zero": (
            f"cost_reported_usd = 0 and not coalesce({_IS_FREE}, false)",
            "a cost of 0",
            "a price, or zero_cost: real; it counts as unknown",
        ),
        "cost_cached": ("is_cached", "an answer from a cache", "its own call; cost and latency are unknown"),
        "cost_mismatch": (
            f"cost_reported_usd > 0 and {differs}",
            "a cost that differs from tokens times price",
            "at most 1 % between them; the reported one counts",
        ),
    }
    if has_prices:
        conditions["price_missing"] = (
            "input_tokens is not null and (price_model is null or (output_tokens is not null and recomputed is null))",
            "tokens but no price on its day",
            "a row of the price table that holds then, with a price of each kind of its tokens",
        )
    # one pass for all: answers may be ten million
    counts = ", ".join(
        f"count(*) filter (where {condition}) as n_{reason}, min(item_code) filter (where {condition}) as at_{reason}"
        for reason, (condition, _, _) in conditions.items()
    )
    connection.execute(
        f"""create table costs_told as
        select
            file_id, model_id, {counts},
            count(*) filter (where {_HAS_TOKENS}) as n_rows,
            min(item_code) filter (where {_HAS_TOKENS}) as at_tokens,
            coalesce(
                min(input_tokens) filter (where {_HAS_TOKENS}) = max(input_tokens) filter (where {_HAS_TOKENS})
                and min(output_tokens) filter (where {_HAS_TOKENS}) = max(output_tokens) filter (where {_HAS_TOKENS}),
                false
            ) as is_constant
        from priced group by file_id, model_id"""
    )
    found = []
    for reason, (_, what, expected) in conditions.items():
        rows = connection.execute(
            f"""select file_id, model_id, n_{reason}, item_id
            from costs_told inner join item_ids on item_code = at_{reason} order by file_id, model_id"""
        ).fetchall()
        found += [_warning(row, reason, what, expected) for row in rows]
    return found + _constant_tokens(connection)


def _constant_tokens(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str, str]]:
    """Models whose token counts never change while those of others do: invented numbers."""
    rows = connection.execute(
        f"""with doubtful as (
            select file_id, model_id, n_rows, at_tokens from costs_told
            where is_constant and exists (select 1 from costs_told where n_rows > 0 and not is_constant)
        ),
        counted as (
            select file_id, model_id, count(distinct item_code) as n_items
            from priced semi join doubtful using (file_id, model_id) where {_HAS_TOKENS} group by all
        )
        select file_id, model_id, n_rows, item_id
        from doubtful inner join counted using (file_id, model_id) inner join item_ids on item_code = at_tokens
        where n_items >= {MIN_CONSTANT_ROWS} order by file_id, model_id"""
    ).fetchall()
    expected = "counts that vary as those of other models do"
    return [_warning(row, "cost_constant_tokens", "the same token counts", expected) for row in rows]


def _warning(row: tuple[Any, ...], reason: str, what: str, expected: str) -> tuple[str, str, str, str]:
    file_id, model_id, n_rows, item_id = row
    plural = "row has" if n_rows == 1 else "rows have"
    text = f"{model_id}: {n_rows} {plural} {what} (such as item {item_id}); expected {expected}."
    return file_id, f"key {model_id}", reason, one_line(text, 300)
