# capeval: install, demo, tests. Needs Python 3.11 or newer and make; brings uv itself when it is missing.

SHELL := /bin/bash
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
RUN := .venv/bin/
export UV_COMPILE_BYTECODE := 1

.PHONY: install demo test test-slow test-browser fuzz lint format up lock clean

install: .venv/installed

.venv/installed: pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen
	@touch $@

.tools/bin/uv:
	python3 -m venv .tools
	.tools/bin/python -m pip install --quiet uv

demo: install
	$(RUN)capeval demo

test: install
	$(RUN)pytest -m "not slow and not browser" -n 2 --dist loadgroup -q

test-slow: install
	$(RUN)pytest -m "slow and not browser" -n 2 --dist loadgroup -q

test-browser: install
	$(RUN)pytest -m browser -q

# Coverage-guided, on Linux and x86-64: make fuzz [FUZZ="inspect long_csv"] [FUZZ_SECONDS=600], a target after the other
fuzz: install
	$(UV) sync --frozen --group fuzz
	OMP_NUM_THREADS=1 $(RUN)python -m fuzz.fuzz_readers $(FUZZ) --seconds $(or $(FUZZ_SECONDS),600)

lint: install
	$(RUN)ruff check
	$(RUN)ruff format --check
	$(RUN)mypy
	$(RUN)sqlfluff lint dbt_like_sql

format: install
	$(RUN)ruff check --fix
	$(RUN)ruff format

up: install
	$(RUN)capeval up

lock: | $(UV)
	$(UV) lock

clean:
	rm -rf .venv .tools data/lake data/warehouse data/capeval.duckdb data/cache data/tmp data/locks data/dagster data/reports
