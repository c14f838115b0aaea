"""A step's code version changes with what it computes, and with nothing else."""

from pathlib import Path

import pytest

from capeval_pipeline.orchestration import code_versions
from capeval_pipeline.orchestration.assets import PYTHON_STEPS
from capeval_pipeline.orchestration.assets.identification_studies import IDENTIFICATION_STUDIES
from capeval_pipeline.orchestration.assets.studies import FRONTIER_STUDIES

STEP = '''
"""Steps."""
from capeval_pipeline.methods.toy_fit import fit
from capeval_pipeline.methods import toy_other

FACTOR = 2

def wanted(x):
    """Docstring."""
    return _inner(x) * FACTOR

def _inner(x):
    # why
    return fit(x)

def unrelated(x):
    return toy_other.other(x)
'''
FILES = {
    "orchestration/assets/toy.py": STEP,
    "methods/toy_fit.py": "from capeval_pipeline.methods.toy_deep import deep\n\ndef fit(x):\n    return deep(x) + 1\n",
    "methods/toy_deep.py": "def deep(x):\n    return x\n",
    "methods/toy_other.py": "def other(x):\n    return x\n",
}


@pytest.fixture
def version(tmp_path: Path, monkeypatch):
    """Code version of `wanted` after some texts were replaced in some files."""

    def of(**changes: tuple[str, str]) -> str:
        for name, text in FILES.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            old, new = changes.get(path.stem, ("", ""))
            assert old in text
            path.write_text(text.replace(old, new) if old else text)
        for cached in (code_versions._tree, code_versions._facts):
            cached.cache_clear()
        monkeypatch.setattr(code_versions, "ROOT", tmp_path)
        return recalled()

    yield of
    for cached in (code_versions._tree, code_versions._facts):
        cached.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        {"toy": ("Docstring.", "Another.")},
        {"toy": ("# why", "# why not")},
        {"toy": ("toy_other.other(x)", "toy_other.other(x) + 1")},
        {"toy_other": ("return x", "return -x")},
    ],
    ids=["docstring", "comment", "a function it does not use", "a module it does not use"],
)
def test_what_changes_no_result_keeps_the_version(version, change):
    assert version(**change) == version()


@pytest.mark.parametrize(
    "change",
    [
        {"toy": ("* FACTOR", "+ FACTOR")},
        {"toy": ("FACTOR = 2", "FACTOR = 3")},
        {"toy": ("return fit(x)", "return -fit(x)")},
        {"toy_fit": ("+ 1", "+ 2")},
        {"toy_deep": ("return x", "return -x")},
    ],
    ids=["its body", "a constant", "a function beside it", "a method", "a method of the method"],
)
def test_what_changes_a_result_changes_the_version(version, change):
    assert version(**change) != version()


@pytest.mark.parametrize("step", PYTHON_STEPS, ids=lambda step: step.name)
def test_every_step_is_versioned_by_more_than_its_own_lines(step):
    facts = code_versions._facts(step.body.__module__, step.body.__name__)
    assert code_versions._modules(facts.imports), f"{step.name} reaches no method, sentence or reader"


NOT_OF_STEPS = (
    "arrays.published_clusters", "methods.ecc.live_routing",  # capeval route
    "methods.identification.allocation",  # live sessions
    "methods.identification.plain",  # references of tests
)  # fmt: skip


def test_every_method_counts_in_the_version_of_some_step():
    bodies = [step.body for step in PYTHON_STEPS]
    bodies += [study.make for study in (*FRONTIER_STUDIES, *IDENTIFICATION_STUDIES)]
    counted = set()
    for body in bodies:
        counted |= code_versions._closure(
            code_versions._modules(code_versions._facts(body.__module__, body.__name__).imports)
        )
    files = [path for folder in ("methods", "arrays") for path in (code_versions.ROOT / folder).rglob("*.py")]
    modules = {
        path.relative_to(code_versions.ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in files
        if path.name != "__init__.py"
    }
    forgotten = {name for name in modules if f"capeval_pipeline.{name}" not in counted}
    assert {name for name in forgotten if not name.startswith(NOT_OF_STEPS)} == set()


def test_facts_remembered_from_another_process_give_the_same_version_and_follow_changes(version, tmp_path, monkeypatch):
    monkeypatch.setattr(code_versions, "SETTLED_SECONDS", -1.0)
    first = version()
    (kept,) = (tmp_path / "__pycache__").iterdir()
    monkeypatch.setattr(code_versions, "_remembered", code_versions._Remembered())
    with monkeypatch.context() as blind:  # nothing is parsed again
        blind.setattr(code_versions, "_tree", None)
        code_versions._facts.cache_clear()
        assert recalled() == first
    assert version(toy_deep=("return x", "return -x")) != first
    kept.write_text("{broken")
    monkeypatch.setattr(code_versions, "_remembered", code_versions._Remembered())
    assert version() == first


def test_a_file_just_changed_is_not_remembered(version, tmp_path):
    version()
    assert not (tmp_path / "__pycache__").exists()


def recalled() -> str:
    """The version of `wanted` over the files as they lie there."""

    def wanted(x):
        raise NotImplementedError

    wanted.__module__ = "capeval_pipeline.orchestration.assets.toy"
    return code_versions.code_version(wanted)
