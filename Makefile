# `make` lists the verbs. Everything runs in .venv; nothing else on the machine is changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rest test-all unit chaos bench bench-quick bench-check check fmt lock clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## everything a run needs: environment, Java, jars
	@$(BIN)/medallion setup

demo: setup ## sample events from Kafka to gold, watched for a minute
	@$(BIN)/medallion demo $(ARGS)

test: setup ## each promise once, on a real broker and a real Spark: ten minutes on two cores
	@$(BIN)/python -m pytest $(WORKERS) -m "not long" --budget 600 $(ARGS)

test-rest: setup ## what test-all has besides test: every death, both ways to write, lives drawn anew
	@$(BIN)/python -m pytest $(WORKERS) -m long $(ARGS)

test-all: setup ## test and test-rest in one run
	@$(BIN)/python -m pytest $(WORKERS) $(ARGS)

unit: setup ## only the tests that start no JVM: a minute
	@$(BIN)/python -m pytest tests/unit $(ARGS)

chaos: setup ## only the tests that kill and corrupt
	@$(BIN)/python -m pytest tests/chaos $(ARGS)

bench: setup ## measure everything beside its peers, into docs/performance.md: some hours
	@PYTHONPATH=. $(BIN)/python -m tests.bench $(ARGS)
	@PYTHONPATH=. $(BIN)/python tests/bench/workloads/strict_json.py
	@PYTHONPATH=. $(BIN)/python tests/bench/workloads/merge_cost.py

bench-quick: setup ## a small drain beside both peers, and a minute of freshness: under six minutes on two cores
	@PYTHONPATH=. $(BIN)/python -m tests.bench --quick --no-page $(ARGS)

bench-check: setup ## what CI may ask: the tutorial's way takes at least 3 times our CPU
	@PYTHONPATH=. $(BIN)/python -m tests.bench --only drain --events 20000 --rounds 1 --against tutorial \
		--cpu-at-least 3 --no-page $(ARGS)

check: $(VENV)/.installed ## format, lint, types, import law
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fmt: $(VENV)/.installed ## format, and mend what a machine can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: $(VENV)/.installed ## write the lock files anew from the .in files (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header requirements.in -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header requirements-build.in -o requirements-build.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header requirements-java.in -o requirements-java.lock

clean: ## remove the environment; tables and caches stay
	rm -rf $(VENV)

# pyspark comes as source and is built here: what builds it is locked too, so nothing is resolved freely.
$(VENV)/.installed: requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "Python 3.11, 3.12 or 3.13 is needed, this is %d.%d; name one with: make PYTHON=python3.12 …" % v)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the locked Python packages into $(VENV), once: about 800 MB to download (pyspark alone is 450 MB),"
	@echo "then a minute to build pyspark; 1.7 GB on disk."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --no-build-isolation -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
