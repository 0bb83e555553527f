# `make` lists the commands. Everything runs in .venv; nothing else on the machine is changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
UV ?= $(BIN)/uv
SHARD ?= 1
SITE = PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
CHECKED = $(addprefix tests/unit/test_,docs.py house.py streaming_guide.py)
COMPILE = $(UV) pip compile $(ARGS) --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-ci test-shard test-all unit chaos chaos-short cluster connectors picture bench bench-quick bench-check check check-java audit-packages site release fmt lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## install what a run needs: packages, Java, jars
	@$(BIN)/medallion setup

demo: setup ## send sample events from Kafka to gold, and watch them for a minute
	@$(BIN)/medallion demo $(ARGS)

test: setup $(VENV)/.installed-dev ## each promise once, on a real broker and a real Spark: eighteen minutes on two cores
	@$(BIN)/python -m tests.runs test $(ARGS)

test-ci: setup $(VENV)/.installed-dev ## promises that need a browser, an index or a minute each; CI runs them every time
	@$(BIN)/python -m tests.runs ci $(ARGS)

test-shard: setup $(VENV)/.installed-dev ## a twelfth of what repeats a proof: every death, both ways to write, lives drawn anew; SHARD=1 to 12
	@$(BIN)/python -m tests.runs shard-$(SHARD) $(ARGS)

test-all: setup $(VENV)/.installed-dev ## test, test-ci and all shards, one after the other; ARGS=--again runs what failed once more
	@$(BIN)/python -m tests.runs all $(ARGS)

unit: setup $(VENV)/.installed-dev ## only the tests that start no Spark and no broker: minutes
	@$(BIN)/python -m pytest tests/unit $(ARGS)

chaos: setup $(VENV)/.installed-dev ## the whole campaign of docs/run/proof.md: hours; its numbers are variables, as in chaos-short
	@CHAOS_CUTS=$${CHAOS_CUTS:-all} CHAOS_DISKS=$${CHAOS_DISKS:-10} KILL_CASES=$${KILL_CASES:-420} \
		SIGKILLS=$${SIGKILLS:-60} RECOVER_CASES=$${RECOVER_CASES:-200} CHAOS_MIXTURES=all $(BIN)/python -m pytest \
		-s --timeout 0 tests/chaos tests/pipeline/change/test_recover.py tests/pipeline/change/test_one_step_back.py $(ARGS)
	@DRAWN_STORED=$${DRAWN_STORED:-2880} $(BIN)/python -m pytest -rP -n 2 --timeout 0 --optimize tests/pipeline/gold/statements/test_drawn.py $(ARGS)
	@PYTHONPATH=. $(BIN)/python -m tests.chaos.planted
	@PYTHONPATH=. $(BIN)/python -m distribution.bench --only soak --no-page

chaos-short: setup $(VENV)/.installed-dev ## the campaign's short form: minutes
	@CHAOS_CUTS=$${CHAOS_CUTS:-12} KILL_CASES=$${KILL_CASES:-6} RECOVER_CASES=$${RECOVER_CASES:-6} \
		$(BIN)/python -m pytest -s tests/chaos/test_cut_points.py tests/chaos/test_seeded_kills.py \
		tests/chaos/test_disk.py tests/chaos/test_clock.py tests/pipeline/change/test_recover.py $(ARGS)
	@PYTHONPATH=. $(BIN)/python -m tests.chaos.planted unit

cluster: setup $(VENV)/.installed-dev ## the example on a Spark cluster of one master and two workers, also by spark-submit: minutes
	@$(BIN)/python -m pytest tests/process/install/test_cluster.py $(ARGS)

connectors: setup $(VENV)/.installed-dev ## a real PostgreSQL and a real MariaDB through Debezium's connectors: minutes; root gets the servers by apt
	@{ command -v mariadbd && ls /usr/lib/postgresql/*/bin/initdb; } > /dev/null 2>&1 || [ "$$(id -u)" != 0 ] \
		|| { apt-get update -qq && apt-get install -y -qq --no-install-recommends mariadb-server postgresql; }
	@CONNECTORS=1 $(BIN)/python -m pytest -rs -n 0 --timeout 1800 tests/broker/end_to_end/test_connectors.py $(ARGS)

picture: setup $(VENV)/.installed-dev ## write docs/status.svg and docs/page.png from runs of the example
	@WRITE_PICTURE=1 $(BIN)/python -m pytest tests/process/run/test_demo.py tests/process/observe/test_page.py $(ARGS)

bench: setup $(VENV)/.installed-dev ## measure everything beside its peers, into docs/performance*.md: some hours
	@PYTHONPATH=. $(BIN)/python -m distribution.bench $(ARGS)

bench-quick: setup $(VENV)/.installed-dev ## a small drain beside all peers, half a minute of freshness beside the loop and Flink: some eight minutes on two cores
	@PYTHONPATH=. $(BIN)/python -m distribution.bench --quick --no-page $(ARGS)

bench-check: setup $(VENV)/.installed-dev ## what CI may ask: the bench's own tests, and that the tutorial's way takes at least 3 times our CPU
	@$(BIN)/python -m pytest -q -n 2 distribution/bench/tests
	@PYTHONPATH=. $(BIN)/python -m distribution.bench --only drain --events 20000 --rounds 1 --against tutorial \
		--cpu-at-least 3 --no-page $(ARGS)

check: $(VENV)/.installed-dev ## format, lint, types, import law, Java, words and examples of pages, the site with its links
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@PYTHONPATH=. $(BIN)/python -m tests.java check
	@$(BIN)/python -m pytest -q -n 0 -m check $(CHECKED)
	@$(SITE)

check-java: $(VENV)/.installed-dev ## format, lint and tests of the Java sources, where a JDK is
	@PYTHONPATH=. $(BIN)/python -m tests.java check

site: $(VENV)/.installed-dev ## write the documentation as a site to build/site, which needs no server
	@$(SITE)

audit-packages: $(VENV)/.installed-dev ## ask the package index for known weaknesses of the locked packages
	@$(BIN)/pip-audit --disable-pip --require-hashes --progress-spinner off --strict -r requirements.lock $(ARGS)

release: $(VENV)/.installed-dev ## make a release: make release VERSION=0.2.0 ARGS=--plan
	@PYTHONPATH=. $(BIN)/python -m distribution.release $(VERSION) $(ARGS)

fmt: $(VENV)/.installed-dev ## format, and apply automatic fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@PYTHONPATH=. $(BIN)/python -m tests.java format

lock: ## write the lock files from the .in files; ARGS=--upgrade updates versions
	$(COMPILE) requirements.in -o requirements.lock
	$(COMPILE) requirements-dev.in -o requirements-dev.lock
	$(COMPILE) requirements-build.in -o requirements-build.lock
	$(COMPILE) requirements-java.in -o requirements-java.lock

clean: ## remove the environment, but no tables and caches
	rm -rf $(VENV)

# Two stamps: a run needs no package of the tests. The script uses only Python's standard library.
$(VENV)/.installed: requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "Python 3.11, 3.12 or 3.13 is needed, this is %d.%d; name one with: make PYTHON=python3.12 …" % v)'
	@test -x $(BIN)/python || { echo "Making the environment $(VENV), once"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python orchestration/install/machine/packages.py run
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@$(BIN)/python orchestration/install/machine/packages.py dev
	@touch $@
