# perdure: `make run` and `make test` are all that a fresh machine needs (Python 3.11 or newer, git, make).

PYTHON ?= python3
VENV ?= .venv
PROFILE ?= plain
BIN := $(VENV)/bin
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Where Python may write no bytecode, each process that the tests start would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

EXAMPLE := examples/code_reader
ROOT ?= perdure
QUESTION ?= Which errors does this code define, and where is each of them raised?

# Which model answers: that of a provider whose key is set, else a script that is served as a model over HTTP.
ifneq ($(OPENAI_API_KEY),)
else ifneq ($(ANTHROPIC_API_KEY),)
export PERDURE_EXAMPLE_PROVIDER := anthropic
export PERDURE_EXAMPLE_MODEL ?= claude-sonnet-4-5
else
SCRIPTED := --scripted $(EXAMPLE)/scripted.py:scripted_reply
endif

.PHONY: run page test check format bench cluster cluster-test chaos soak rollout kills simulate simulate-defects trial dev docs pins release clean

run: $(VENV)/installed  ## ask the example agent a question about a source tree
	@$(BIN)/perdure run $(EXAMPLE)/code_reader.prompty --tools $(EXAMPLE)/tools.py $(SCRIPTED) \
		--input question="$(QUESTION)" --input root="$(ROOT)"
	@echo "(perdure is $(BIN)/perdure here; make page shows the run in a browser)" >&2

page: $(VENV)/installed  ## the runs of this machine in a browser, until Ctrl-C
	@$(BIN)/perdure serve $(EXAMPLE)/code_reader.prompty --tools $(EXAMPLE)/tools.py

dev: $(VENV)/installed  ## server, UI and a worker with the example's tools, in this terminal
	@$(BIN)/perdure dev --tools $(EXAMPLE)/tools.py

test: $(VENV)/installed-dev  ## the whole test suite, in three processes: they often wait
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(VENV)/installed-dev  ## lint, formatting, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/installed-dev  ## measure: speed, history growth, memory
	@for each in benchmarks/bench_*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

cluster: $(VENV)/installed-dev  ## a real Temporal cluster over PostgreSQL; PROFILE=tls, jwt, faults, compose
	$(BIN)/python -m cluster up $(PROFILE)

cluster-test: cluster  ## kills, long runs, sessions, gateways and tools of the suite, on that cluster
	$(BIN)/python -m cluster test $(ARGS)

chaos: cluster  ## kill, freeze and cut everything while mixed runs work, then check the results
	$(BIN)/python -m cluster.chaos $(ARGS)

soak: cluster  ## 2,000 waiting runs next to 100 active ones, for 20 minutes
	$(BIN)/python -m cluster.soak $(ARGS)

rollout: cluster  ## ten versions of the workers, three faulty ones, under 200 runs of which some wait
	$(BIN)/python -m cluster.rollout $(ARGS)

kills: $(VENV)/installed-dev  ## kill workers and an embedded server, again and again
	$(BIN)/python -m pytest -m chaos $(ARGS)

trial: $(VENV)/installed-dev  ## repeat the tests of rare failures many times
	$(BIN)/python -m pytest -m trial $(ARGS)

mutations: $(VENV)/installed-dev  ## plant faults, one at a time, and show that the tests notice each
	$(BIN)/python -m tests.repository.mutations $(ARGS)

simulate: $(VENV)/installed-dev  ## run agents over a model of Temporal's server, with faults, from seeds
	$(BIN)/python -m simulation $(ARGS)

simulate-defects: $(VENV)/installed-dev  ## show that the simulation finds planted defects
	$(BIN)/python -m simulation.defects $(ARGS)

docs: $(VENV)/installed-dev  ## write the pages that are made from the code, then the site, into site/
	$(BIN)/python docs/write_cli.py
	$(BIN)/python docs/write_schema.py
	$(BIN)/python docs/write_agent_file.py
	$(BIN)/python docs/write_api.py
	$(BIN)/python docs/write_providers.py
	$(BIN)/python docs/write_rest.py
	$(BIN)/python docs/build_site.py

pins: $(VENV)/installed-dev  ## write constraints.txt from what is installed
	(head -1 constraints.txt; $(BIN)/python -m pip freeze --all --exclude-editable) > constraints.new
	mv constraints.new constraints.txt

release:  ## build, try, list and sign a release in dist/; RELEASE_KEY=FILE is the SSH key that signs
	@RELEASE_KEY='$(RELEASE_KEY)' PYTHON='$(PYTHON)' .ci/release

clean:
	rm -rf $(VENV) build dist site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "perdure needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making the environment $(VENV); the first time takes a minute." >&2
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	@$(INSTALL) --upgrade pip
	@$(INSTALL) --editable '.[local]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@$(INSTALL) --group dev --group docs
	@touch $@
