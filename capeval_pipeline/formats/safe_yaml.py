"""YAML that people write beside their files: loaded safe, small, and without keys that silently win or grow."""

from pathlib import Path
from typing import Any

import yaml

from capeval_pipeline.formats.refusals import one_line, refusal, shown

YAML_BYTES = 1024**2
_FAULTS = (
    yaml.YAMLError, RecursionError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
)  # fmt: skip
"""What the loader raises: it checks the values of explicit tags (`!!int ''`, `!!bool x`) in no way of its own."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is a fault: the last one would win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":  # merges of merges grow without bound
                raise yaml.YAMLError("merge keys (<<) are not read")
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    raise yaml.YAMLError(f"key {shown(key.value)} is given twice")
                names.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, reason: str) -> Any:
    """Content of a YAML file, in which no object is made of a tag. Raises FileRefused with `reason` as its code."""
    try:
        n_bytes = path.stat().st_size
        if n_bytes > YAML_BYTES:
            raise refusal(path, reason, f"has {n_bytes} bytes", f"at most {YAML_BYTES}")
        # the loader is a safe one
        return yaml.load(path.read_text(encoding="utf-8-sig"), Loader=_UniqueKeyLoader)
    except OSError as error:
        raise refusal(path, reason, f"cannot be opened ({error.strerror})", "a readable file") from error
    except _FAULTS as error:
        is_told = isinstance(error, yaml.YAMLError | UnicodeDecodeError)
        why = (getattr(error, "problem", None) or str(error)) if is_told else "a value does not fit its tag"
        why = one_line("nested too deep" if isinstance(error, RecursionError) else why, 120)
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise refusal(path, reason, f"is no YAML ({why}{where})", "keys and values") from error
