"""From what a person types to a benchmark: its id, or its name while that has one version."""

from collections.abc import Sequence

from capeval_pipeline.errors import UsageError


def match_benchmark(known: Sequence[str], name: str) -> str:
    """The id itself, else the only id of that name; several versions or none: UsageError listing them."""
    if name in known:
        return name
    versions = [benchmark_id for benchmark_id in known if benchmark_id.rsplit("@", 1)[0] == name]
    if len(versions) == 1:
        return versions[0]
    if versions:
        raise UsageError(f"benchmark {name!r} has {len(versions)} versions: {', '.join(versions)}; name one of them")
    listed = (
        ", ".join(known[:20]) + (" …" if len(known) > 20 else "") if known else "none yet; `capeval ingest` adds one"
    )
    raise UsageError(f"no benchmark {name!r}; there are: {listed}")
