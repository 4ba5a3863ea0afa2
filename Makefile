# The front door. Every target sets up what it needs (tools/setup) and then
# asks meson and ninja, which do the work in build/.
#
#   make            build the library and the tools
#   make demo       train a click model with a server and two workers
#   make test       all tests; T=name runs one
#   make check      format, layers, headers, symbols, ABI, warnings, analysis
#   make bench      measure, into build/bench.tsv; B=area measures one area
#   make python     the Python package, built and tested
#   make wheel      a wheel, tested with every Python that is here
#   make seeds      the documents' scripts, as they stand; DIR=path has them
#   make golden     compare with recorded numbers; DIR=path says where they are
#   make asan tsan  the tests under the sanitizers
#   make soak       the long tests
#   make cluster    jobs over several hosts, under Slurm and mpirun; as root
#   make pages      the pages of `flotilla report` in a browser (installs chromium)
#   make install    PREFIX (/usr/local) and DESTDIR are honoured
#   make format     let clang-format rewrite the sources
#   make clean      remove build/

ifeq ($(origin CC),default)
CC = gcc
endif
export CC

PREFIX ?= /usr/local
BUILD ?= build
MESON = tools/meson
NINJA = ninja
# Tests of processes wait for half of their time: two to a core.
TEST = $(MESON) test --no-suite soak --no-suite cluster --print-errorlogs \
    --num-processes $$(($$(nproc) * 2))

# The sanitizers of gcc 12 want the address layout they were made for.
FIXED_LAYOUT = $$(setarch -R true 2>/dev/null && echo setarch -R)

# Hundreds of programs are linked; without mold the usual linker does it.
FAST_LINK = $$(command -v mold >/dev/null && echo -Dc_link_args=-fuse-ld=mold)

# What was freed is watched until 16 MB more are, and stacks are named by 12
# frames: less than the usual, in three quarters of the time.
ASAN = ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=12:$$ASAN_OPTIONS

# What a stack needs to name its lines, at half the price of compiling.
LIGHT_DEBUG = -Doptimization=0 -Ddebug=false -Dc_args=-g1

# The one that the extension is built for: the first that has numpy.
PYTHON = $(shell for p in python3 /usr/bin/python3; do \
    $$p -c 'import numpy' 2>/dev/null && echo $$p && break; done)

# $(call configure,DIR,OPTIONS): sets the build directory up, once.
configure = test -f $(1)/build.ninja || $(MESON) setup $(1) $(2)

.PHONY: all demo test check bench golden asan tsan soak install format clean
.PHONY: pages cluster python wheel seeds build tests check-format check-layers check-words check-headers
.PHONY: check-python check-types check-symbols check-abi check-gcc check-tidy check-tools

all: build
	$(NINJA) -C build product

build:
	@tools/setup build
	@$(call configure,build)

# The same directory with the tests switched on; BUILD names another one.
tests:
	@tools/setup test
	@$(call configure,$(BUILD),-Dtests=enabled)
	@test -f $(BUILD)/.tests || { \
	    $(MESON) configure $(BUILD) -Dtests=enabled && touch $(BUILD)/.tests; }

demo: build
	@$(NINJA) -C build --quiet cmd/flotilla cmd/fleetrun examples/ctr_dnn
	@examples/demo.sh build

test: tests
	@test -z "$(T)" || $(MESON) test -C $(BUILD) --list $(T) >/dev/null || \
	    { echo "make: no test is called $(T)" >&2; exit 1; }
	$(TEST) -C $(BUILD) $(if $(T),-v $(T))

soak: tests
	$(MESON) test -C $(BUILD) --suite soak --print-errorlogs
	@tools/setup soak
	tools/soak-python $(BUILD)

pages: tests
	@tools/setup pages
	$(MESON) test -C $(BUILD) --suite pages --print-errorlogs

cluster: tests
	@tools/setup cluster
	$(MESON) test -C $(BUILD) --suite cluster --print-errorlogs

python: tests
	$(MESON) test -C $(BUILD) --suite python --print-errorlogs

seeds: tests
	@test -n "$(DIR)" || { echo "usage: make seeds DIR=path" >&2; exit 2; }
	@$(NINJA) -C $(BUILD) cmd/fleetrun python/flotilla/_core.abi3.so
	PYTHONPATH=python:$(BUILD)/python $(PYTHON) tests/python/seeds.py \
	    $(BUILD)/cmd/fleetrun $(DIR)

wheel:
	@tools/setup build
	tools/wheel

golden: tests
	@test -n "$(DIR)" || { echo "usage: make golden DIR=path" >&2; exit 2; }
	@$(NINJA) -C $(BUILD) tests/golden/golden
	$(BUILD)/tests/golden/golden $(DIR)

# The peers that the benches need may have come after build/ was set up.
bench: build
	@tools/setup bench
	@test -f build/.bench || { \
	    $(MESON) setup --reconfigure build >build/bench-setup.log && \
	    touch build/.bench; }
	@$(NINJA) -C build
	bench/run $(B)

asan:
	@tools/setup test
	@$(call configure,build/asan,-Dtests=enabled $(LIGHT_DEBUG) \
	    -Db_sanitize=address$(comma)undefined -Db_lundef=false \
	    $(FAST_LINK))
	$(ASAN) $(FIXED_LAYOUT) $(TEST) -C build/asan -t 5 $(if $(T),-v $(T))

tsan:
	@tools/setup test
	@$(call configure,build/tsan,-Dtests=enabled $(LIGHT_DEBUG) \
	    -Db_sanitize=thread -Db_lundef=false -Dgemm=plain \
	    $(FAST_LINK))
	$(FIXED_LAYOUT) $(TEST) -C build/tsan -t 10 $(if $(T),-v $(T))

comma = ,

# Cheap checks first: a wrong include is told before anything is compiled.
check: check-format check-layers check-types check-words check-python \
       check-headers \
       check-gcc check-symbols check-abi check-tidy
	@echo "check: all good"

check-tools:
	@tools/setup check

check-format: check-tools
	tools/sources | xargs clang-format --dry-run -Werror

check-layers:
	tools/check-layers

check-types:
	tools/check-types

check-words:
	tools/check-words

check-python: check-tools
	tools/check-python

check-headers: check-tools
	tools/check-headers

check-gcc: check-tools
	@CC=gcc; $(call configure,build/gcc,-Dtests=enabled -Dwerror=true \
	    $(FAST_LINK))
	$(NINJA) -C build/gcc --quiet

check-symbols: check-gcc
	tools/check-symbols build/gcc/src/libflotilla.so

check-abi: check-gcc
	tools/check-abi build/gcc/src/libflotilla.so

# clang's warnings need no build of its own, only its commands.
check-tidy: check-tools
	@CC=clang; $(call configure,build/clang,-Dtests=enabled -Dwerror=true)
	tools/check-tidy build/clang

install: build
	@$(MESON) configure build -Dprefix=$(abspath $(PREFIX))
	@$(NINJA) -C build product
	DESTDIR=$(DESTDIR) $(MESON) install -C build --no-rebuild
	@test -n "$(DESTDIR)" || /sbin/ldconfig 2>/dev/null || true

format: check-tools
	tools/sources | xargs clang-format -i

clean:
	rm -rf build
