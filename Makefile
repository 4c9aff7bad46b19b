# Each target works as the very first command on a machine with Python 3.11 or newer (with venv), make and
# the package registries. Choose another Python with: make test PYTHON=/path/to/python3.12

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.kafkakit-installed
# The versions that are installed; LOCK=/dev/null takes the newest that pyproject.toml allows.
LOCK ?= requirements.lock
EXTRAS := dev,sandbox,spark,connect,registry
# The first that runs, is new enough and can make environments; a name on the PATH alone proves nothing.
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$name -c '$(SUITABLE)' >/dev/null 2>&1 && { echo $$name; break; }; done)
# Tests with real brokers side by side: one worker more than cores, as brokers and runs wait half of the time; each
# needs 2 GB.
BROKER_WORKERS ?= $(shell cores=$$(nproc); echo $$(( cores < 3 ? cores + 1 : 4 )))
# Bytecode is kept even where the environment forbids it: without it every worker compiles all tests anew.
unexport PYTHONDONTWRITEBYTECODE
DEMO_ARGS ?=
H2LOAD := nghttp2-client libc-ares2 libev4 libjemalloc2
PYTEST_ARGS ?=
QUICK := not kafka and not zookeeper and not network and not spark
# Where tests with real parts are (a test checks it); collecting all others takes each worker most of a minute.
REAL := tests/integration tests/spark tests/test_bare_install.py tests/test_determinism.py

.PHONY: venv parts lock audit dist image demo demo-fleet test check slow-tests bench docs pictures config-tables protos
.DEFAULT_GOAL := venv

venv: $(STAMP)

$(STAMP): pyproject.toml $(LOCK)
	@python="$(PYTHON)"; test -n "$$python" || { echo "error: found no Python 3.11 or newer with venv; install one \
	(on Debian: python3 and python3-venv) or pass PYTHON=/path/to/python3.11" >&2; exit 2; }; \
	$$python -c '$(SUITABLE)' || { echo "error: $$python is not a Python 3.11 or newer with venv; \
	pass PYTHON=/path/to/python3.11" >&2; exit 2; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(LOCK) PIP_BUILD_CONSTRAINT=$(LOCK) \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

# What tests and benchmarks use that no wheel brings, unpacked into .parts without installing it: Debian's Prometheus
# with promtool, h2load with its libraries, and Chromium without windows, systemd-analyze and Graphviz's dot with those
# that this machine lacks.
parts: .parts/usr/bin/prometheus .parts/usr/bin/h2load .parts/usr/bin/chromium .parts/usr/bin/systemd-analyze \
  .parts/usr/bin/dot

# Unpack the package $(1), and what it depends on that this machine lacks, into the folder $(2).
define unpack
	mkdir -p .parts/usr/bin $(2)/packages
	cd $(2)/packages && \
	  fetch() { apt-get download -q $(1) $$(apt-get install -s --no-install-recommends $(1) | \
	    sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -vx '$(1)\|libc6'); } && \
	  { fetch || { apt-get update -q && fetch; }; } && for package in *.deb; do dpkg-deb --fsys-tarfile "$$package" | \
	    tar -x -C .. --exclude='*/share/doc' --exclude='*/share/locale' --exclude='libVkLayer*' || exit 1; done
	rm -r $(2)/packages
endef

# 8 MB, 25 MB unpacked. A unit that is checked may name the targets of systemd's own.
.parts/usr/bin/systemd-analyze:
	$(call unpack,systemd,.parts/systemd)
	printf '%s\n' '#!/bin/sh' 'root=$$(cd "$$(dirname "$$0")/../../systemd" && pwd)' \
	  'libs=$$(printf "%s:" "$$root"/lib/*-linux-gnu "$$root"/usr/lib/*-linux-gnu "$$root"/usr/lib/*-linux-gnu/systemd)' \
	  'export LD_LIBRARY_PATH="$$libs$$LD_LIBRARY_PATH"' \
	  'export SYSTEMD_UNIT_PATH="$$root/lib/systemd/system:$$root/usr/lib/systemd/system"' \
	  'exec "$$root/usr/bin/systemd-analyze" "$$@"' > $@.part
	chmod +x $@.part
	$@.part --version
	mv $@.part $@

# 100 MB, 260 MB unpacked. Its own script has absolute paths.
.parts/usr/bin/chromium:
	$(call unpack,chromium-headless-shell,.parts)
	printf '%s\n' '#!/bin/sh' 'parts=$$(cd "$$(dirname "$$0")/../.." && pwd)' \
	  'libs=$$(printf "%s:" "$$parts"/usr/lib/*-linux-gnu "$$parts"/usr/lib/*-linux-gnu/pulseaudio)' \
	  '[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_SYSROOT="$$parts"' \
	  'export LD_LIBRARY_PATH="$$libs$$LD_LIBRARY_PATH"' \
	  'exec "$$parts/usr/lib/chromium/chromium-headless-shell" "$$@"' > $@.part
	chmod +x $@.part
	$@.part --version
	mv $@.part $@

# 3 MB, 9 MB unpacked. It looks for its plugins where it was built for, unless it is told.
.parts/usr/bin/dot:
	$(call unpack,graphviz,.parts/graphviz)
	printf '%s\n' '#!/bin/sh' 'root=$$(cd "$$(dirname "$$0")/../../graphviz" && pwd)' \
	  'libs=$$(printf "%s:" "$$root"/lib/*-linux-gnu "$$root"/usr/lib/*-linux-gnu)' \
	  'export LD_LIBRARY_PATH="$$libs$$LD_LIBRARY_PATH" GVBINDIR="$$(echo "$$root"/usr/lib/*-linux-gnu/graphviz)"' \
	  'exec "$$root/usr/bin/dot" "$$@"' > $@.part
	chmod +x $@.part
	$@.part -c
	echo 'digraph { a -> b }' | $@.part -Tsvg > /dev/null
	mv $@.part $@

.parts/usr/bin/h2load:
	mkdir -p .parts
	cd .parts && { apt-get download -q $(H2LOAD) || { apt-get update -q && apt-get download -q $(H2LOAD); }; } && \
	  for package in $(H2LOAD); do dpkg-deb --fsys-tarfile "$$package"_*.deb | tar -x && rm "$$package"_*.deb; done
	test -x $@

.parts/usr/bin/prometheus:
	mkdir -p .parts
	cd .parts && { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } && \
	  for package in prometheus_*.deb; do dpkg-deb --fsys-tarfile "$$package" | tar -x ./usr/bin/promtool ./usr/bin/prometheus && rm "$$package"; done
	test -x $@

# What a fresh environment gets now becomes what everyone gets; names and versions alone, so that any registry will do.
lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check 'hatchling<2' --editable '.[$(EXTRAS)]'
	{ grep '^#' $(LOCK); .venv-lock/bin/python -m pip freeze --all --exclude pip --exclude-editable; } > $(LOCK).part
	mv $(LOCK).part $(LOCK)
	rm -rf .venv-lock

# Known vulnerabilities of the versions in the lock file, from the advisories of the Python Packaging Authority.
audit:
	test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && \
	  .venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	.venv-audit/bin/pip-audit --requirement $(LOCK) --no-deps --disable-pip

# In dist/: the wheel and the source archive, wheels/ with all that an installation without a registry needs, a file
# that any Python of this minor version runs, and a Debian package. FORMS='wheels pyz deb' makes all; docs/install.md.
DIST ?= dist
FORMS ?=
dist:
	venv=.venv-dist-$$($(PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=".")') && \
	  { test -x $$venv/bin/hatchling || { $(PYTHON) -m venv $$venv && PIP_CONSTRAINT=$(LOCK) \
	  $$venv/bin/python -m pip install --quiet --disable-pip-version-check 'hatchling<2'; }; } && \
	  $$venv/bin/python deploy/packages/build.py $(DIST) $(FORMS)

# The image of kafkakit as an OCI layout, $(DIST)/image, of the wheels in $(DIST): no daemon. ROOT=PATH: a folder or a tar
# file with the system to build on; Debian's packages, fetched by apt, if not given.
image:
	$(PYTHON) deploy/image/build.py $(DIST) $(if $(ROOT),--root $(ROOT))

demo: $(STAMP)
	$(BIN)/kafkakit sandbox demo $(DEMO_ARGS)

# A made fleet and a real cluster, collected, audited and shown on a page: demo-fleet/fleet.html.
demo-fleet: $(STAMP)
	PATH="$(abspath $(BIN)):$$PATH" deploy/demo-fleet.sh $(DEMO_ARGS)

# Quick tests on all cores; then those with real brokers, a file to a worker; then those that share one Spark session;
# then, alone, those that measure time.
test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal -m '$(QUICK)' $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n $(BROKER_WORKERS) --dist loadfile --no-loadscope-reorder \
	  -m '(kafka or zookeeper or network) and not timed and not spark' $(REAL) $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m spark $(REAL) $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m timed $(REAL) $(PYTEST_ARGS)

# Four minutes on two cores: without random tests and those of more than 0.1 s; make test runs all.
CHECKED := tests/unit tests/cli tests/compat tests/test_architecture.py tests/test_docs.py tests/test_slow_tests.py
check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n $(BROKER_WORKERS) --dist worksteal -m '$(QUICK) and not slow' $(CHECKED)

# Measure them and write the list of slow ones, tests/slow_tests.txt, anew.
slow-tests: $(STAMP)
	$(BIN)/python -m pytest -n auto -m '$(QUICK)' --list-slow $(CHECKED)

bench: $(STAMP) .parts/usr/bin/h2load
	@for script in bench/*.py; do $(BIN)/python $$script || exit 1; done

docs: $(STAMP)
	$(BIN)/python -m tests.rigs.documents

# The pictures in docs/pictures, from clusters that are started for them; ten minutes. WHICH="lag failover" makes some.
pictures: $(STAMP) parts
	$(BIN)/python -m tests.rigs.pictures $(WHICH)

# The configuration tables of lint's rules, from the jars of each Kafka version; needs a JDK.
config-tables: $(STAMP)
	$(BIN)/python -m tests.rigs.config_tables

# The compiled form of the registry's protocol; needs grpcio-tools.
protos: $(STAMP)
	cd kafkakit/adapters/rpc && $(abspath $(BIN))/python -m grpc_tools.protoc -I. --descriptor_set_out=registry.binpb registry.proto registry_v2.proto health.proto
