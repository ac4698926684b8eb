# Tidemark. `make run` and `make test` on a fresh Debian 12 install what they need, build, and do
# their job. Knobs: BUILD=dir  CC=gcc|clang  SAN=address,undefined  DEBUG=1  V=1  OFFICIAL=dir (bench)
# NODEPS=1: no packages are installed.
#
# `make list` prints the targets.

BUILD  ?= build
,      := ,
CC     ?= gcc
PYTHON ?= /usr/bin/python3
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib

VERSION := $(shell sed -n 's/^## \[\([0-9][0-9.]*\)\].*/\1/p' CHANGELOG.md 2>/dev/null | head -n 1)

WARN := -Wall -Wextra -Werror -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
        -Wmissing-prototypes -Wpointer-arith -Wformat=2 -Wundef -Wvla
OPT  := $(if $(DEBUG),-O0,-O2)
# UBSan's messages are 9 MB of data, which every start of the program relocates: a check traps instead,
# and AddressSanitizer prints the line.
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fsanitize-undefined-trap-on-error -fno-omit-frame-pointer)
# Against what hostile bytes might reach in spite of all; they cost nothing that can be measured.
HARDEN   := $(if $(SAN)$(DEBUG),,-fstack-protector-strong)
FORTIFY  := $(if $(SAN)$(DEBUG),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
HARDLINK := $(if $(SAN)$(DEBUG),,-pie -Wl,-z,relro,-z,now)
CPPFLAGS += -I. -I$(BUILD)/gen -D_GNU_SOURCE -DTIDEMARK_VERSION='"$(VERSION)"'
# The same objects are linked into the program and into libtidetrace.so. Hidden symbols cannot be
# replaced from outside, so this code is what -fPIE would give.
PIC      := -fPIC -fvisibility=hidden
CFLAGS   += -std=c17 -g $(OPT) $(HARDEN) $(FORTIFY) $(PIC) $(WARN) $(SANFLAGS)
# See symbols/helper/debuginfod_fetcher.c.
CURL_HOOK := $(if $(LINKED_IN),-Wl$(,)--wrap=curl_easy_setopt,-Wl$(,)--export-dynamic-symbol=curl_easy_setopt)
LDFLAGS  += $(HARDLINK) $(SANFLAGS) $(CURL_HOOK)
LDLIBS   := -llz4 -lzstd -lz -llzma -lxxhash -ljansson -lyajl -lsqlite3 -ldw -lelf \
            -lpcre2-8 -liberty -lpng -lncursesw -ltinfo -lpthread -lm

# For `make tarball`: libraries that base/library.c loads elsewhere are linked in. Debian 11's gcc warns
# of what later ones do not.
ifdef LINKED_IN
CPPFLAGS += -DTIDEMARK_LINKED_IN
LDLIBS   := -ldebuginfod -lcurl -lmicrohttpd -lcapstone -lssl -lcrypto $(LDLIBS) -lbz2 -ldl
WARN     += -Wno-missing-field-initializers -Wno-conversion
endif

Q := $(if $(V),,@)

# Folders in dependency order, the lowest last: a library may use those to its right.
FOLDERS := mcp lib run server report naming analysis import symbols proc trace protocol base
LIBS    := $(FOLDERS:%=$(BUILD)/lib%.a)

# The sources of folders, those of their subfolders among them.
sources_in = $(sort $(wildcard $(foreach f,$(1),$(f)/*.c $(f)/*/*.c)))

.PHONY: all always libtidetrace web screenshots list deps deps-test deps-test-full deps-deb run test unit e2e check check-layers check-docs \
        check-subjects check-scripts check-trixie ci-short ci-medium ci-long asan valgrind fuzz bench bench-hostile bench-quick soak format format-check tidy install install-compat uninstall deb clean

# Keep objects: make would remove those that only a chain of pattern rules made.
.SECONDARY:

# What `tidemark run` loads into programs.
PRELOADED := $(BUILD)/libtidemark.so $(BUILD)/libtidemark-gpu.so $(BUILD)/liballocwrapper.so

## all: builds build/tidemark, with the page of `report --format html` if node and npm are there,
##      libtidetrace, and the library that `tidemark run` loads into programs
all: deps $(BUILD)/tidemark libtidetrace $(PRELOADED)

## list: prints the targets
list:
	@sed -n 's/^## //p' Makefile

## ---- compiling

$(BUILD)/%.o: %.c | deps
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $<")
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

OBJCOPY ?= objcopy

define folder_library
$(BUILD)/lib$(1).a: $(patsubst %.c,$(BUILD)/%.o,$(call sources_in,$(1))) \
                    $(if $(filter protocol,$(1)),$(BUILD)/gen/wire_table.o) $(if $(filter report,$(1)),$(BUILD)/gen/page_template.o)
	@rm -f $$@
	$$(Q)$$(AR) rcsT $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_library,$(f))))

# Files of the daemon's page are part of the program.
$(BUILD)/server/daemon/dashboard.o: $(wildcard web/daemon/*) $(addprefix web/src/,base.css dom.js format.js theme.js)

# With SAN: the defaults of the sanitizers.
SAN_OBJECTS := $(if $(SAN),$(BUILD)/test/sanitizer_options.o)

$(BUILD)/tidemark: $(patsubst %.c,$(BUILD)/%.o,$(call sources_in,cli)) $(SAN_OBJECTS) $(LIBS)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Goes into other people's programs: needs the C library only, exports its hooks only, has frame
# pointers (a hook finds its caller's frame by them) and is never built with sanitizers.
CLIENT_FLAGS := -std=c17 -g $(OPT) -fPIC -fvisibility=hidden -fno-omit-frame-pointer -fno-builtin \
                -fno-optimize-sibling-calls -ftls-model=initial-exec $(WARN)

# Parts of the C library before version 2.34.
CLIENT_LIBS := -Wl,--as-needed -lpthread -ldl

# What a sample passes over goes straight on to the real function, and functions that look at their
# caller, or are to have no frame of ours above them, are jumped to.
JUMPING := client/hooks/hooks client/hooks/hooks_load client/hooks/hooks_main
$(JUMPING:%=$(BUILD)/%.o): CLIENT_FLAGS += -foptimize-sibling-calls

# Frames are copied word by word: what was just stored so would make larger loads wait.
$(BUILD)/client/unwind.o: CLIENT_FLAGS += -fno-tree-slp-vectorize

$(BUILD)/client/%.o: client/%.c | deps
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $<")
	$(Q)$(CC) -I. -D_GNU_SOURCE $(CLIENT_FLAGS) -MMD -MP -c -o $@ $<

# First in order of initialisation, so that constructors of other libraries are recorded. The second
# name is the one that users of the Kit know; a link would not do, since ldconfig goes by the soname.
CLIENT_SOURCES := $(sort $(wildcard client/*.c client/hooks/*.c client/python/*.c))
$(BUILD)/libtidemark.so $(BUILD)/liballocwrapper.so: $(CLIENT_SOURCES:%.c=$(BUILD)/%.o)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-Bsymbolic-functions -Wl,-z,initfirst,-z,relro,-z,now,-z,defs -o $@ $^ $(CLIENT_LIBS)

$(BUILD)/libtidemark-gpu.so: $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard client/gpu/*.c)))
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) -shared -Wl,-soname,libtidemark-gpu.so -Wl,-z,relro,-z,now,-z,defs -o $@ $^ $(CLIENT_LIBS)

## client-aarch64: the preload library for AArch64, with a cross compiler (test_aarch64.py runs it)
CROSS_CC := aarch64-linux-gnu-gcc
.PHONY: client-aarch64
client-aarch64: $(BUILD)/aarch64/libtidemark.so
$(JUMPING:client/%=$(BUILD)/aarch64/%.o): CLIENT_FLAGS += -foptimize-sibling-calls
$(BUILD)/aarch64/%.o: client/%.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC   $< (aarch64)")
	$(Q)$(CROSS_CC) -I. -D_GNU_SOURCE $(CLIENT_FLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/aarch64/libtidemark.so: $(CLIENT_SOURCES:client/%.c=$(BUILD)/aarch64/%.o)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CROSS_CC) -shared -Wl,-soname,libtidemark.so -Wl,-z,initfirst,-z,relro,-z,now,-z,defs \
	    -o $@ $^

## cross-arm64: all for AArch64, in build-bookworm-arm64/src/build, with a cross compiler and the libraries
##              of a Debian 12 for AArch64, build-bookworm-arm64, which debootstrap makes; as root
.PHONY: cross-arm64 deps-arm64 check-arm64 check-arm64-system deb-arm64 test-programs
ARM64_ROOT := build-bookworm-arm64
ARM64_DEPS  = $(DEPS) $(filter-out clang% libclang% shellcheck debhelper,$(DEPS_TEST)) dpkg-dev \
                  python3-numpy
ARM64_MAKE  = $(MAKE) --no-print-directory NODEPS=1 FOREIGN=1 BUILD=$(ARM64_ROOT)/src/build \
                  CC='$(CROSS_CC) --sysroot=$(CURDIR)/$(ARM64_ROOT)' \
                  $(foreach tool,AR=ar LD=ld OBJCOPY=objcopy,$(subst =,=aarch64-linux-gnu-,$(tool)))
cross-arm64: deps-arm64
	+@$(ARM64_MAKE) all

# Links to libraries lead to the root of the system that they are in.
deps-arm64:
	$(call install_packages,debootstrap rsync gcc-aarch64-linux-gnu qemu-user-static)
	@test/in-debian --arm64 bookworm sh -c 'dpkg -s $(ARM64_DEPS) >/dev/null 2>&1 || { apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(ARM64_DEPS); }'
	@find $(ARM64_ROOT)/usr/lib/aarch64-linux-gnu -maxdepth 1 -type l -lname '/*' | while read -r link; do \
	    ln -sfr "$(ARM64_ROOT)$$(readlink "$$link")" "$$link" || exit 1; \
	done

# The version is in CHANGELOG.md and is compiled into the commands only. This file changes with it.
$(BUILD)/gen/version: CHANGELOG.md
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@

$(patsubst %.c,$(BUILD)/%.o,$(call sources_in,cli) lib/tidetrace_call.c \
    mcp/mcp_session.c server/daemon/daemon_api.c server/sinks/push_files.c): $(BUILD)/gen/version

# libtidetrace: what programs may call, and nothing else, is visible from outside. The archive is one
# object, so that our names cannot meet those of a program that it is linked into.
LIB_MAJOR   := 1
LIB_FILE    := libtidetrace.so.$(LIB_MAJOR).$(shell sed -n 's/^\#define TIDETRACE_MINOR //p' include/tidetrace.h)
LIB_SONAME  := libtidetrace.so.$(LIB_MAJOR)
LIB_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(call sources_in,lib))
LIB_PARTS   := $(filter-out $(BUILD)/libmcp.a $(BUILD)/liblib.a,$(LIBS))

## libtidetrace: the library that reads traces for other programs, shared and static
libtidetrace: $(BUILD)/libtidetrace.so $(BUILD)/libtidetrace.a

$(BUILD)/libtidetrace.so: $(LIB_OBJECTS) $(LIB_PARTS) lib/tidetrace.map
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) -shared -Wl,-soname,$(LIB_SONAME) -Wl,--version-script,lib/tidetrace.map \
	    -Wl,-z,relro,-z,now $(if $(SAN),,-Wl,-z,defs) $(SANFLAGS) -o $(BUILD)/$(LIB_FILE) \
	    $(LIB_OBJECTS) $(LIB_PARTS) -Wl,--as-needed $(LDLIBS)
	$(Q)ln -sf $(LIB_FILE) $(BUILD)/$(LIB_SONAME) && ln -sf $(LIB_FILE) $@

$(BUILD)/libtidetrace.a: $(LIB_OBJECTS) $(LIB_PARTS)
	$(if $(V),,@echo "  AR   $@")
	$(Q)$(LD) -r -o $(BUILD)/libtidetrace.o $(LIB_OBJECTS) $(LIB_PARTS)
	$(Q)$(OBJCOPY) --wildcard --keep-global-symbol='tidetrace_*' $(BUILD)/libtidetrace.o
	@rm -f $@
	$(Q)$(AR) rcs $@ $(BUILD)/libtidetrace.o && rm -f $(BUILD)/libtidetrace.o

# The wire tables are data: generated from the item list, one array per protocol number.
$(BUILD)/gen/wire_table.c: protocol/queue-items.tsv protocol/gen-wire-table.awk
	@mkdir -p $(@D)
	$(Q)awk -f protocol/gen-wire-table.awk protocol/queue-items.tsv > $@.tmp && mv $@.tmp $@

$(BUILD)/gen/wire_table.o: $(BUILD)/gen/wire_table.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The page is built from web/ and becomes a C array. Without node, npm or their registry there is an
# empty one; `make web` says what is wrong and tries each time. PAGE=no: do not try.
WANT_PAGE   := $(filter web screenshots,$(MAKECMDGOALS))
PAGE        ?= $(if $(shell command -v node >/dev/null && command -v npm),yes,no)
WEB_SOURCES := $(sort $(wildcard web/*.* web/src/*)) web/build web/.npmrc

$(BUILD)/gen/page_template.c: $(WEB_SOURCES) $(if $(WANT_PAGE),always)
	@mkdir -p $(@D)
	@if [ -n "$(WANT_PAGE)" ]; then \
	    sh web/build $(BUILD); \
	elif [ "$(PAGE)" = no ]; then \
	    sh web/build --empty $(BUILD); \
	elif ! WEB_RETRIES=0 sh web/build $(BUILD) 2>$(BUILD)/gen/page.log; then \
	    echo "  the page was not built: $(BUILD)/gen/page.log has the reason, \`make web\` retries"; \
	    sh web/build --empty $(BUILD); \
	fi

$(BUILD)/gen/page_template.o: $(BUILD)/gen/page_template.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

## web: builds the page of `report --format html`, which needs node and npm, into build/tidemark
web: all

## screenshots: the pictures in docs/img, of pages, the dashboard and a terminal, after `make deps-test-full`
screenshots: web
	@node test/web/screenshots.mjs "$$(command -v chromium)" $(BUILD)/test-web $(BUILD)/tidemark docs/img
	@$(PYTHON) test/terminal_pictures.py $(BUILD)/tidemark fixtures/traces/v0.14.0/memscen_mt.tracy docs/img

## ---- what the machine must have

DEPS       := gcc make mawk pkg-config liblz4-dev libzstd-dev libxxhash-dev libjansson-dev \
              libcapstone-dev libyajl-dev zlib1g-dev liblzma-dev libdw-dev \
              libelf-dev libiberty-dev libsqlite3-dev libdebuginfod-dev libpcre2-dev libpng-dev \
              libncurses-dev libmicrohttpd-dev libcurl4-gnutls-dev binutils
DEPS_TEST  := libcmocka-dev g++ clang clang-format clang-tidy libclang-rt-dev llvm python3 \
              python3-zstandard python3-lz4 jq curl mandoc shellcheck debhelper libjemalloc2 \
              libtcmalloc-minimal4 libmimalloc-dev zsh fish
DEPS_FULL  := debuginfod golang-go lld chromium prometheus gcc-aarch64-linux-gnu \
              python3-numpy python3-pip python3-setuptools python3-wheel mypy \
              libc6-dev-arm64-cross qemu-user
APT         = $(if $(filter 0,$(shell id -u)),,sudo )apt-get
missing     = $(shell dpkg-query -W -f '$${db:Status-Status} $${Package}\n' $(1) 2>&1 | \
                awk '/no packages found|^[^i]/ { print "x" }' | head -n 1)

# Asks for nothing and needs no rights when all packages are there.
define install_packages
	@if [ -n "$(call missing,$(1))" ]; then \
	    echo "installing: $(1)"; \
	    $(APT) update -qq && DEBIAN_FRONTEND=noninteractive \
	        $(APT) install -y -qq --no-install-recommends $(1) >/dev/null; \
	fi
endef

# Debian 13 has no ClickHouse, and the tests that need it are skipped there.
define install_clickhouse
	@if [ -n "$(call missing,clickhouse-server)" ]; then \
	    $(APT) update -qq || exit 1; \
	    if apt-cache show clickhouse-server >/dev/null 2>&1; then \
	        echo "installing: clickhouse-server"; \
	        DEBIAN_FRONTEND=noninteractive \
	            $(APT) install -y -qq --no-install-recommends clickhouse-server >/dev/null; \
	    else \
	        echo "this release has no package clickhouse-server: tests that need it are skipped"; \
	    fi; \
	fi
endef

# Goals that install packages that are missing; NODEPS=1: none do. Other goals name what is missing.
INSTALLS  := $(if $(NODEPS),,$(filter deps% run% test unit e2e check% asan valgrind fuzz bench% soak \
               web deb tarball,$(MAKECMDGOALS)))
LIBRARIES := liblz4 libzstd libxxhash jansson capstone yajl zlib liblzma libdw libelf sqlite3 \
             libdebuginfod libpcre2-8 libpng ncursesw tinfo libmicrohttpd libcurl
HEADERS   := libiberty/demangle.h # of a library without a .pc file

define name_missing
	@pkg-config --print-errors --exists $(LIBRARIES) && for header in $(HEADERS); do \
	    echo "#include <$$header>" | $(CC) -E -x c - >/dev/null 2>&1 || \
	        { echo "$$header is missing"; false; } || exit 1; \
	done || { echo "make deps installs the Debian packages: $(DEPS)"; false; }
endef

## deps: installs the Debian packages that building needs
deps:
	$(if $(LINKED_IN)$(FOREIGN),,$(if $(INSTALLS),$(call install_packages,$(DEPS)),$(name_missing)))

## deps-test: and those that the tests need
deps-test: deps
	$(if $(INSTALLS),$(call install_packages,$(DEPS_TEST)))

# npm may be there without Debian's package of it.
HAVE_NPM := $(shell command -v npm >/dev/null && echo yes)

# Programs that open what `tidemark export` writes.
CONSUMERS := test/consumers/node_modules/.package-lock.json

$(CONSUMERS): test/consumers/package.json test/consumers/package-lock.json test/consumers/.npmrc
	@cd test/consumers && npm ci --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

## deps-test-full: and the heavy ones that only CI needs: a browser, node, npm and its packages
deps-test-full: deps-test
	$(call install_packages,$(DEPS_FULL) $(if $(HAVE_NPM),,nodejs npm))
	$(install_clickhouse)
	@$(MAKE) --no-print-directory $(CONSUMERS)
	@sh test/web/install $(BUILD)

## ---- tests

UNIT_TESTS := $(patsubst test/unit/%.c,$(BUILD)/test/unit/%,$(sort $(wildcard test/unit/test_*.c)))

# The archives are thin, so the linker's trace names the objects that it takes. They are the test's
# prerequisites: an edit links again only the tests that contain it.
$(BUILD)/test/unit/%: $(BUILD)/test/unit/%.o $(SAN_OBJECTS) | $(LIBS)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(LDFLAGS) -o $@ $@.o $(SAN_OBJECTS) $(LIBS) $(LDLIBS) -lcmocka -Wl,--trace >$@.trace
	$(Q)sed -n 's|^\($(BUILD)/.*\.o\)$$|$@: \1\n\1:|p' $@.trace >$@.link.d && rm -f $@.trace

# Before a test's first linking, all may be in it.
$(foreach t,$(UNIT_TESTS),$(if $(wildcard $(t).link.d),,$(eval $(t): $(LIBS))))

# The parser of command lines is part of the program only.
OPTION_OBJECTS := $(patsubst %,$(BUILD)/cli/options/%.o,options option_table nearest tree_options)
$(BUILD)/test/unit/test_cli_options: $(OPTION_OBJECTS)
$(BUILD)/test/unit/test_cli_options: LDFLAGS += $(OPTION_OBJECTS)

# So is the view of top.
$(BUILD)/test/unit/test_cli_browser: $(BUILD)/cli/top/browser.o
$(BUILD)/test/unit/test_cli_browser: LDFLAGS += $(BUILD)/cli/top/browser.o

# This library makes allocations fail, those of Tidemark's code only.
$(BUILD)/test/unit/test_trace_failures: LDFLAGS += \
    $(foreach f,malloc calloc realloc aligned_alloc strdup,-Wl,--wrap=$(f))

# This one plays a kernel without a call.
$(BUILD)/test/unit/test_base_file_io: LDFLAGS += -Wl,--wrap=syscall

# This one replaces the clock, and counts what a session does between two looks at it.
$(BUILD)/test/unit/test_server_session: LDFLAGS += $(foreach f,monotonic_ns intake_take \
    memory_limit_keep stop_asked stop_wait recv,-Wl,--wrap=$(f))

BENCH_TOOLS := $(patsubst bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard bench/*.c)))

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(LIBS)
	$(if $(V),,@echo "  LD   $@")
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Make allocations and calls on files of a program fail; never under sanitizers themselves.
# The third makes a server bind the loopback interface.
$(BUILD)/test/%.so: test/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -O2 -g $(WARN) -shared -fPIC -o $@ $<

# A client with its own call stacks: with dynamic symbols, and without.
$(BUILD)/test/stack_client.o: PIC := -fPIC

$(BUILD)/test/stack_client: $(BUILD)/test/stack_client.o $(LIBS)
	$(Q)$(CC) $(LDFLAGS) -Wl,--build-id -o $@ $^ $(LDLIBS)

$(BUILD)/test/stack_client_named: $(BUILD)/test/stack_client.o $(LIBS)
	$(Q)$(CC) $(LDFLAGS) -Wl,--build-id -rdynamic -o $@ $^ $(LDLIBS)

# A program with a client and zones, whose malloc is recorded beside it.
$(BUILD)/test/zone_client: $(BUILD)/test/zone_client.o $(LIBS)
	$(Q)$(CC) $(LDFLAGS) -Wl,--build-id -rdynamic -o $@ $^ $(LDLIBS)

TEST_TOOLS := $(BENCH_TOOLS) $(BUILD)/test/preload.so $(BUILD)/test/faults.so \
              $(BUILD)/test/loopback.so $(BUILD)/test/altered.so \
              $(BUILD)/test/stack_client $(BUILD)/test/stack_client_named $(BUILD)/test/zone_client

## run: records an unmodified program, perl, and prints its memory summary
run: all
	@BUILD=$(BUILD) sh test/run-example

## run-replay: plays a recorded client to `tidemark capture` and prints its memory summary
run-replay: all
	@BUILD=$(BUILD) sh test/replay-example

## test: builds and runs all tests; ends with "N passed, N failed"
test: deps-test $(BUILD)/tidemark libtidetrace $(PRELOADED) $(UNIT_TESTS) $(TEST_TOOLS)
	@BUILD=$(BUILD) CC='$(CC)' $(PYTHON) test/run_tests.py

## unit, e2e: only those tests; T=trace_merge: only test_trace_merge
unit: deps-test $(if $(T),$(BUILD)/test/unit/test_$(T),$(UNIT_TESTS) $(TEST_TOOLS))
	@BUILD=$(BUILD) $(PYTHON) test/run_tests.py --only unit $(if $(T),--pattern test_$(T).c)

e2e: deps-test $(BUILD)/tidemark libtidetrace $(PRELOADED) $(TEST_TOOLS)
	@BUILD=$(BUILD) $(PYTHON) test/run_tests.py --only e2e $(if $(T),--pattern test_$(T).py)

## check: what a developer runs before each commit: layers, subjects, format, documents, unit tests,
## some e2e
check: deps-test all $(UNIT_TESTS) $(TEST_TOOLS)
	@$(MAKE) --no-print-directory -j2 check-layers check-subjects format-check check-docs
	@BUILD=$(BUILD) $(PYTHON) test/run_tests.py --only unit --beside update,report,verify

## check-layers: holds every #include against the folder table
check-layers:
	@$(PYTHON) test/check_layers.py

## check-subjects: commit subjects are `area: imperative summary` in at most 72 characters
check-subjects:
	@$(PYTHON) test/check_subjects.py

## check-scripts: shellcheck of all shell scripts
check-scripts:
	@shellcheck .ci/run test/ci examples/ci/compare.sh test/run-example test/replay-example test/fuzz/run \
	    web/build test/web/install test/in-debian test/in-system package/build-deb \
	    package/build-tarball package/trial

## ci-short, ci-medium, ci-long: the tiers of the CI; .ci/run is short and medium
ci-short ci-medium ci-long: ci-%:
	@test/ci $*

## check-docs: holds the documents against the program
check-docs: deps-test $(BUILD)/tidemark
	@BUILD=$(BUILD) $(PYTHON) test/check_docs.py

# Programs that tests run.
test-programs: $(UNIT_TESTS) $(TEST_TOOLS)

## check-arm64: the tests on that Debian for AArch64, in an emulator without ptrace(2) and pagemap; as root;
##              ONLY=unit, ONLY=e2e T=merge: some
check-arm64: cross-arm64
	+@$(ARM64_MAKE) test-programs
	@test/in-debian --arm64 bookworm env EMULATED=1 python3 test/run_tests.py $(if $(ONLY),--only $(ONLY)) \
	    $(if $(T),--pattern test_$(T).$(if $(filter unit,$(ONLY)),c,py))

## check-arm64-system: the tests that an emulator of programs lacks something for (test/emulator.tsv), under
##                     a kernel in qemu-system-aarch64; as root; ONLY=e2e T=run_attach: all of that file
check-arm64-system: cross-arm64
	$(call install_packages,qemu-system-arm e2fsprogs)
	+@$(ARM64_MAKE) test-programs
	@test/in-system bookworm python3 test/run_tests.py $(if $(ONLY),--only $(ONLY)) \
	    $(if $(T),--pattern test_$(T).$(if $(filter unit,$(ONLY)),c,py),--listed)

## check-trixie: all tests on a bare Debian 13, in build-trixie, which debootstrap makes; as root
check-trixie:
	$(call install_packages,debootstrap rsync)
	@test/in-debian trixie sh -c 'make deps-test-full && make -j2 test'

## asan: the tests again under AddressSanitizer and UBSan
asan:
	@$(MAKE) --no-print-directory BUILD=build-asan SAN=address,undefined test

## valgrind: unit tests and commands under memcheck, in an hour; VALGRIND="--pattern capture": some
valgrind: deps-test all $(UNIT_TESTS) $(BUILD)/bench/churn
	$(call install_packages,valgrind)
	@BUILD=$(BUILD) $(PYTHON) test/memcheck.py $(VALGRIND)

## fuzz: each fuzz target for FUZZ_SECONDS (60) under ASan and UBSan
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(patsubst test/fuzz/%.c,build-fuzz/%,$(sort $(wildcard test/fuzz/fuzz_*.c)))
FUZZ_SERVER  := address channel checkpoint client_memory debug_packages http http_head http_patience intake jitdump journal \
                journal_folder journal_read keepalive kernel_notes live_page memory_limit monitor offer part_saver \
                perf_map port_claim \
                process_stat program recovery stop timed_frames usage_record
FUZZ_SOURCES := $(call sources_in,base protocol proc symbols trace import run/recording analysis report lib mcp) \
                $(foreach n,$(FUZZ_SERVER),$(wildcard server/*/$(n).c run/$(n).c naming/$(n).c))
FUZZ_OBJECTS := $(patsubst %.c,build-fuzz/obj/%.o,$(FUZZ_SOURCES)) build-fuzz/obj/wire_table.o \
                build-fuzz/obj/page_template.o
FUZZ_FLAGS   := -std=c17 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined

build-fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

build-fuzz/obj/wire_table.o: $(BUILD)/gen/wire_table.c
	@mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -c -o $@ $<

# Without the page, which is built and not written.
build-fuzz/obj/page_template.o: web/build
	@mkdir -p $(@D)
	$(Q)sh web/build --empty build-fuzz
	$(Q)clang $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -c -o $@ build-fuzz/gen/page_template.c

build-fuzz/libfuzzed.a: $(FUZZ_OBJECTS)
	$(Q)rm -f $@ && ar rcs $@ $^

# With the archive last: a target has what it needs of it.
build-fuzz/%: test/fuzz/%.c build-fuzz/libfuzzed.a | deps-test
	@echo "  FUZZ $@"
	$(Q)clang $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $(filter %.c %.o,$^) build-fuzz/libfuzzed.a $(LDLIBS)

# What the daemon answers over HTTP; its captures and reports are the target's own.
build-fuzz/fuzz_daemon_http: $(patsubst %,build-fuzz/obj/server/daemon/%.o,daemon_api daemon_files daemon_http \
    daemon_metrics dashboard daemon_stream token) build-fuzz/obj/test/sanitizer_options.o

build-fuzz/fuzz_sent_files: build-fuzz/obj/server/daemon/sent_files.o

fuzz: $(FUZZ_TARGETS)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) sh test/fuzz/run $(FUZZ_TARGETS)

## bench: speed and memory beside the limits of the machine; OFFICIAL=dir adds the official tools
bench: all $(BENCH_TOOLS)
	@BUILD=$(BUILD) OFFICIAL=$(OFFICIAL) $(PYTHON) bench/run.py
	@BUILD=$(BUILD) $(PYTHON) bench/symbols.py
	@BUILD=$(BUILD) $(PYTHON) bench/programs.py
	@BUILD=$(BUILD) $(PYTHON) bench/looks.py

## bench-hostile: memory and time of captures of streams that expand to a GiB
bench-hostile: all
	@BUILD=$(BUILD) $(PYTHON) bench/hostile.py

## bench-quick: the same at small sizes, in a minute: shows that it runs, and measures nothing
bench-quick: export BENCH_SCALE = 0.03
bench-quick: export BENCH_ROUNDS = 1
bench-quick: bench

## soak: the daemon for SOAK_MINUTES (30) with 32 clients that come and go, days in a minute for some
SOAK_MINUTES ?= 30
soak: all $(BENCH_TOOLS)
	@BUILD=$(BUILD) $(PYTHON) bench/soak.py --minutes $(SOAK_MINUTES)

## ---- style

SOURCE_DIRS := base protocol proc trace import symbols analysis naming report server lib run mcp include cli \
               client examples test test/unit \
               test/fuzz bench
SOURCES     := $(sort $(wildcard $(SOURCE_DIRS:%=%/*.[ch]) $(SOURCE_DIRS:%=%/*/*.[ch])))
TIDIED      := $(filter %.c,$(filter-out test/% bench/% examples/%,$(SOURCES)))

## format: formats all sources; format-check only looks; tidy runs clang-tidy, whose analyzer gives a
## function up after TIDY_NODES states (its own limit, 225000, takes five times as long)
TIDY_NODES ?= 50000
format:
	@clang-format -i $(SOURCES)

format-check:
	@clang-format --dry-run --Werror $(SOURCES)

.PHONY: $(TIDIED:%=tidy-%) format-check
tidy: $(TIDIED:%=tidy-%)
$(TIDIED:%=tidy-%): tidy-%: | $(BUILD)/gen/wire_table.c
	@clang-tidy --quiet $* -- $(CPPFLAGS) -std=c17 -Xclang -analyzer-config \
	    -Xclang max-nodes=$(TIDY_NODES) 2>/dev/null

## ---- installing

MAN      := $(sort $(wildcard man/*.[1-9]))
DROP_INS := tracy-capture tracy-capture-daemon tracy-csvexport tracy-import-chrome tracy-merge
DROP_INS += tracy-update
COMPAT   := capture capture-release iree-tracy-capture capture-daemon update
COMPAT   += csvexport iree-tracy-csvexport import-chrome
EXAMPLES := $(sort $(shell find examples -type f -not -name '*.pyc'))
COMPLETE_BASH := $(PREFIX)/share/bash-completion/completions/tidemark
COMPLETE_ZSH  := $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)/_tidemark
COMPLETE_FISH := $(PREFIX)/share/fish/vendor_completions.d/tidemark.fish

## install: the program, libtidetrace, man pages, completions and the tracy-* names under PREFIX (LIBDIR)
install: all install-program
	install -m 644 $(BUILD)/libtidetrace.a $(DESTDIR)$(LIBDIR)/libtidetrace.a
	@mkdir -p $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    lib/tidetrace.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/tidetrace.pc
	@mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed -e 's|@PREFIX@|$(PREFIX)|' server/tidemark.service.in \
	    >$(DESTDIR)$(PREFIX)/lib/systemd/system/tidemark.service
	install -m 644 server/tidemark.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/tidemark.socket

# What does not depend on PREFIX or on other libraries' archives.
.PHONY: install-program
install-program: $(BUILD)/tidemark $(BUILD)/libtidetrace.so $(PRELOADED)
	install -D -m 755 $(BUILD)/tidemark $(DESTDIR)$(PREFIX)/bin/tidemark
	install -D -m 644 $(BUILD)/libtidemark.so $(DESTDIR)$(PREFIX)/lib/tidemark/libtidemark.so
	install -D -m 644 $(BUILD)/libtidemark-gpu.so $(DESTDIR)$(PREFIX)/lib/tidemark/libtidemark-gpu.so
	@for page in $(MAN); do \
	    install -D -m 644 $$page \
	        $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; \
	done
	@for name in $(DROP_INS); do ln -sf tidemark $(DESTDIR)$(PREFIX)/bin/$$name || exit 1; done
	install -D -m 644 completions/tidemark.bash $(DESTDIR)$(COMPLETE_BASH)
	install -D -m 644 completions/_tidemark $(DESTDIR)$(COMPLETE_ZSH)
	install -D -m 644 completions/tidemark.fish $(DESTDIR)$(COMPLETE_FISH)
	install -D -m 644 include/tidetrace.h $(DESTDIR)$(PREFIX)/include/tidetrace.h
	install -D -m 644 include/tidemark.h $(DESTDIR)$(PREFIX)/include/tidemark.h
	install -D -m 644 $(BUILD)/$(LIB_FILE) $(DESTDIR)$(LIBDIR)/$(LIB_FILE)
	ln -sf $(LIB_FILE) $(DESTDIR)$(LIBDIR)/$(LIB_SONAME)
	ln -sf $(LIB_FILE) $(DESTDIR)$(LIBDIR)/libtidetrace.so
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/tidemark/LICENSE
	@for file in $(EXAMPLES); do \
	    install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/doc/tidemark/$$file || exit 1; \
	done
	@[ ! -s $(BUILD)/gen/page_licences.txt ] || install -D -m 644 $(BUILD)/gen/page_licences.txt \
	    $(DESTDIR)$(PREFIX)/share/doc/tidemark/page-licences.txt

## install-compat: the remaining names of the official tools too, and liballocwrapper.so in LIBDIR
install-compat: install
	install -D -m 644 $(BUILD)/liballocwrapper.so $(DESTDIR)$(LIBDIR)/liballocwrapper.so
	@for name in $(COMPAT); do ln -sf tidemark $(DESTDIR)$(PREFIX)/bin/$$name || exit 1; done

## uninstall: removes what install and install-compat put there
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,tidemark $(DROP_INS) $(COMPAT))
	rm -f $(addprefix $(DESTDIR),$(COMPLETE_BASH) $(COMPLETE_ZSH) $(COMPLETE_FISH))
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/doc/tidemark/,page-licences.txt LICENSE $(EXAMPLES))
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(LIB_FILE) $(LIB_SONAME) libtidetrace.so libtidetrace.a)
	rm -f $(DESTDIR)$(LIBDIR)/pkgconfig/tidetrace.pc $(DESTDIR)$(PREFIX)/include/tidetrace.h
	rm -f $(DESTDIR)$(PREFIX)/lib/tidemark/libtidemark.so $(DESTDIR)$(LIBDIR)/liballocwrapper.so
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/tidemark,.service .socket)
	rm -f $(DESTDIR)$(PREFIX)/lib/tidemark/libtidemark-gpu.so $(DESTDIR)$(PREFIX)/include/tidemark.h
	rm -f $(foreach page,$(MAN),$(DESTDIR)$(PREFIX)/share/man/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))

## tarball: one archive for any Linux with glibc 2.31 or later, in $(BUILD), built in build-bullseye, a
##          bare Debian 11, which debootstrap makes; as root
.PHONY: tarball
TARBALL := tidemark-$(VERSION)-linux-$(shell uname -m).tar.gz
tarball:
	$(call install_packages,debootstrap rsync)
	@sh web/build $(BUILD)
	@rm -rf build-bullseye/src
	@test/in-debian bullseye mkdir -p build/gen
	@cp -p $(BUILD)/gen/page_template.c $(BUILD)/gen/page_licences.txt build-bullseye/src/build/gen/
	@test/in-debian bullseye sh package/build-tarball $(VERSION)
	@cp build-bullseye/src/build/$(TARBALL) $(BUILD)/

## check-tarball: builds the archive twice, the second time in a new Debian 11, compares both, and tries it
##                on bare Debians 11, 12 and 13; as root
.PHONY: check-tarball
check-tarball: tarball
	@mv $(BUILD)/$(TARBALL) $(BUILD)/first-$(TARBALL)
	@rm -rf build-bullseye
	@$(MAKE) --no-print-directory tarball
	@cmp $(BUILD)/first-$(TARBALL) $(BUILD)/$(TARBALL) && rm $(BUILD)/first-$(TARBALL)
	@BUILD=$(BUILD) $(PYTHON) package/try tarball bullseye bookworm trixie

# dpkg-shlibdeps; package/build-deb loads the library in the package with python3.
deps-deb: deps
	$(call install_packages,dpkg-dev python3)

## deb: a Debian package in $(BUILD)
deb: all deps-deb
	@BUILD=$(BUILD) VERSION=$(VERSION) sh package/build-deb

## deb-arm64: one for AArch64, by cross-arm64; as root
deb-arm64: cross-arm64
	@test/in-debian --arm64 bookworm sh -c 'make NODEPS=1 --touch all >/dev/null && \
	    make --no-print-directory NODEPS=1 $(if $(MAINTAINER),MAINTAINER="$(MAINTAINER)") deb'
	@cp $(ARM64_ROOT)/src/build/tidemark_$(VERSION)_arm64.deb $(BUILD)/

## check-deb: builds the package in Debians 12 and 13, examines it, installs it on bare ones and tries it;
##            as root
.PHONY: check-deb
check-deb:
	$(call install_packages,debootstrap rsync openssl)
	@BUILD=$(BUILD) $(PYTHON) package/try deb bookworm trixie

## check-deb-arm64: examines the package for AArch64, installs it on a bare Debian 12 in an emulator and
##                  tries it; as root
.PHONY: check-deb-arm64
check-deb-arm64: deb-arm64
	$(call install_packages,openssl)
	@BUILD=$(BUILD) $(PYTHON) package/try deb bookworm-arm64

## clean: removes everything built
clean:
	rm -rf build build-asan build-fuzz $(BUILD)

-include $(shell find $(BUILD) build-fuzz -type f -name "*.d" 2>/dev/null)
