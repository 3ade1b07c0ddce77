# harmonia: a PostgreSQL index access method
#
#   make                 build with PGXS (PG_CONFIG=... picks the PostgreSQL)
#   make install         install into that PostgreSQL
#   make installcheck    regression and isolation tests on a running server
#   make check           install what is missing, build, run all tests on private
#                        servers; the system's PostgreSQL is not touched
#   make check-slow      the same for the suites that take minutes
#   make check-deaths    1,000 deaths, stops and hangs of the device daemon during searches
#   make gpucheck        the suites that batches matter to, with all of them on the GPU;
#                        needs one
#   make bench           run all benchmarks on private servers; takes hours, with QUICK=1
#                        fewer rows and runs; keeps all in bench/results
#   make bench-gpu       those that need a GPU
#   make demo            build, load a private server, compare with btree
#   make cuda            build the device daemon, with CUDA if there is an nvcc; what is
#                        installed afterwards includes it, in PostgreSQL's pkglibdir
#
# WERROR=1 makes warnings errors.  Two options make an extension for tests.  With
# SMALL_LIMITS=1 small indexes go through what otherwise happens in large ones only.
# With FAULT_POINTS=1 the parameter harmonia.fault makes a session fail or wait at a
# step of its work (src/am/fault.h), and assertions are checked.  Another PostgreSQL, compiler or option rebuilds
# what was built before.

PG_CONFIG ?= pg_config

# These may have to install PostgreSQL first, so they must work without PGXS.
SCRIPT_GOALS := check check-slow check-deaths gpucheck bench bench-gpu demo cuda

ifneq (,$(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)))

.PHONY: $(MAKECMDGOALS)

check:
	tools/check.sh

check-slow:
	tools/check.sh --slow

check-deaths:
	DEATHS=1000 TESTS=test/t-slow/device_deaths.pl tools/check.sh slow

gpucheck:
	GPU=on TESTS='test/t/03*.pl test/t/04*.pl' tools/check.sh device regress isolation tap
	bench/gpu/run.sh -f

bench:
	bench/run.sh

bench-gpu:
	bench/run.sh gpu

demo:
	tools/demo.sh

cuda:
	tools/setup.sh device
	$(MAKE) -C cuda

# Anything else that was asked for along with them.
ifneq (,$(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS)))
$(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS)):
	$(MAKE) $@
endif

else

EXTENSION = harmonia
MODULE_big = harmonia
DATA = $(wildcard sql/harmonia--*.sql)
include $(or $(srcdir),.)/src/widths.mk
WIDE_OBJS = $(both_widths:%=src/%_128.o)
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))) $(WIDE_OBJS)

TESTS = $(sort $(filter-out $(DATA),$(wildcard sql/*.sql)))
REGRESS = $(patsubst sql/%.sql,%,$(TESTS))
REGRESS_OPTS = --load-extension=$(EXTENSION)
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
# PostgreSQL 16 looks for expected files apart from the input.
ISOLATION_OPTS = --inputdir=test --load-extension=$(EXTENSION) \
	$(if $(filter-out 15,$(MAJORVERSION)),--expecteddir=test)

PG_CPPFLAGS = -I$(srcdir)/src
# PostgreSQL's own headers are not clean under the last three.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers
# A changed header rebuilds what includes it; Debian's PGXS does not see to that.
PG_CFLAGS += -MMD -MP
DEPENDENCIES = $(OBJS:.o=.d)
EXTRA_CLEAN = $(DEPENDENCIES) $(flags_file)

ifneq (,$(WERROR))
PG_CFLAGS += -Werror
endif

ifneq (,$(SMALL_LIMITS))
PG_CPPFLAGS += -DHM_SMALL_LIMITS
endif
ifneq (,$(FAULT_POINTS))
# Assertions work on a server without them, too.
PG_CPPFLAGS += -DHM_FAULT_POINTS -DUSE_ASSERT_CHECKING
endif

# PostgreSQL was configured for gcc; clang does not know all of its options.
ifneq (,$(findstring clang,$(CC)))
PG_CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument \
	-Wno-ignored-attributes
endif

# Debian's packages of the server and of libpq have pg_config and PGXS, but no headers.
ifeq (,$(wildcard $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h))
$(error "$(PG_CONFIG)" leads to no server headers of PostgreSQL. $(shell \
	PG_CONFIG='$(filter-out pg_config,$(PG_CONFIG))' tools/setup.sh --advise build 2>&1))
endif
PGXS := $(shell $(PG_CONFIG) --pgxs)

# JIT bitcode needs the very clang that PostgreSQL was built with.  It is an
# optimisation that we, and extensions for tests, can do without.
CLANG_OF_SERVER := $(shell sed -n 's/^CLANG *= *//p' $(dir $(PGXS))../Makefile.global)
ifeq (,$(shell command -v $(or $(CLANG_OF_SERVER),none) 2>/dev/null))
override with_llvm = no
endif
ifneq (,$(FAULT_POINTS)$(SMALL_LIMITS))
override with_llvm = no
endif

include $(PGXS)

# The daemon, which the server looks for beside the extension's library.
gpud = cuda/build/harmonia_gpud
ifneq (,$(wildcard $(gpud)))
install: install-gpud
install-gpud: installdirs
	$(INSTALL_PROGRAM) $(gpud) '$(DESTDIR)$(pkglibdir)'
.PHONY: install-gpud
endif

uninstall: uninstall-gpud
uninstall-gpud:
	rm -f '$(DESTDIR)$(pkglibdir)/$(notdir $(gpud))'
.PHONY: uninstall-gpud

-include $(DEPENDENCIES)

flags_file = .build-flags
flags = $(VERSION) $(shell $(CC) --version | head -n 1) $(COMPILE.c) $(LDFLAGS) $(SHLIB_LINK) \
	$(with_llvm) $(COMPILE.c.bc)
$(OBJS): $(flags_file)
include $(srcdir)/tools/flags.mk

$(WIDE_OBJS): %_128.o: %.c
	$(COMPILE.c) -DHM_KEYS=128 -o $@ $<
$(WIDE_OBJS:.o=.bc): %_128.bc: %.c
	$(COMPILE.c.bc) -DHM_KEYS=128 -o $@ $<

# Bitcode follows the headers too, by way of the object.
ifeq ($(with_llvm),yes)
$(foreach object,$(OBJS),$(eval $(object:.o=.bc): $(object)))
endif

endif
