"""Fields of the launchpad: those of the stage's settings, each empty by default, which means "as configured"."""

import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel

BOUNDS = {
    "ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}",
    "min_length": "at least {} of them", "max_length": "at most {} of them", "pattern": "matching {}",
}  # fmt: skip


def config_fields(settings: type[BaseModel] | None, run_fields: Mapping[str, str] | None = None) -> dict[str, dg.Field]:
    """Dagster config of a step: a field for each of the stage's settings, `full`, `rebuild`, the step's run fields.

    Bounds stand in the description; the settings model itself enforces them when the step starts.
    """
    fields = {
        "full": dg.Field(
            bool, is_required=False, default_value=False, description="The long size, as `capeval run --full` asks for."
        )
    }
    fields["rebuild"] = dg.Field(
        bool, is_required=False, default_value=False, description="Make it again even if nothing it reads has changed."
    )
    for name, info in (settings.model_fields if settings else {}).items():
        bounds = ", ".join(_bound(bound) for bound in info.metadata)
        shown = "as configured" if info.is_required() else f"default {info.get_default(call_default_factory=True)!r}"
        fields[name] = dg.Field(
            dg.Noneable(_dagster_type(info.annotation)),
            is_required=False,
            description=f"{info.description or name} ({shown}{'; ' + bounds if bounds else ''})",
        )
    for name, meaning in (run_fields or {}).items():
        fields[name] = dg.Field(dg.Noneable(str), is_required=False, description=meaning)
    return fields


def _bound(bound: Any) -> str:
    """A bound of pydantic's in words: Ge(ge=2) is "at least 2"."""
    for name, said in BOUNDS.items():
        if hasattr(bound, name):
            return said.format(getattr(bound, name))
    return "finite" if getattr(bound, "allow_inf_nan", True) is False else str(bound)


def _dagster_type(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        inner = [argument for argument in get_args(annotation) if argument is not type(None)]
        return _dagster_type(inner[0]) if len(inner) == 1 else dg.Any
    if origin is Literal:
        return _dagster_type(type(get_args(annotation)[0]))
    if origin in (list, tuple, typing.Sequence):
        inner = [argument for argument in get_args(annotation) if argument is not Ellipsis]
        return [_dagster_type(inner[0])] if len(set(inner)) == 1 else dg.Any
    return {bool: bool, int: int, float: float, str: str}.get(annotation, dg.Any)
