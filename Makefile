# Belay. `make help` lists what there is to make. One Makefile, not recursive; a new .c file in a folder below is found by itself.
SHELL := /bin/bash
VERSION := 0.1.0
SANITIZER ?=
BUILD ?= build$(if $(SANITIZER),/$(SANITIZER))
PREFIX ?= /usr/local
CC ?= cc
CXX ?= c++
PKG_CONFIG ?= pkg-config

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# Libraries are asked for only when something is compiled: `make deps`, `make help` and `make clean` run without them.
PACKAGES := libevent libevent_pthreads jansson yaml-0.1 sqlite3 hwloc openblas libxxhash libutf8proc libcrypto libcurl expat pmix ompi-c
NO_LIBS := deps help clean demo check distclean
ifneq ($(filter-out $(NO_LIBS),$(or $(MAKECMDGOALS),all)),)
PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) | sed 's/-I/-isystem /g')
libs = $(shell $(PKG_CONFIG) --libs $(1))
LIBS_COMMON := $(call libs,libevent jansson libcrypto)
LIBS_SCHEMA := $(call libs,yaml-0.1)
LIBS_DAEMON := $(call libs,sqlite3)
LIBS_AGENT := $(call libs,hwloc) -ldl
LIBS_SHIM := $(call libs,libevent_pthreads pmix)
LIBS_LAUNCHER := $(call libs,libcurl)
LIBS_KERNELS := $(call libs,openblas)
LIBS_CHECKPOINT := $(call libs,libxxhash libcurl expat)
LIBS_RUNTIME := $(call libs,ompi-c pmix libutf8proc) $(LIBS_CHECKPOINT)
endif

SAN_FLAGS := $(if $(SANITIZER),-fsanitize=$(SANITIZER) -fno-omit-frame-pointer -fno-sanitize-recover=all)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Werror
CFLAGS ?= -O2 -g
CPPFLAGS_ALL := -I. -I$(BUILD)/gen -D_GNU_SOURCE -DBELAY_VERSION='"$(VERSION)"' $(PKG_CFLAGS) $(CPPFLAGS)
CFLAGS_ALL := -std=c11 $(WARN) $(SAN_FLAGS) -fopenmp-simd -fPIC -pthread $(CFLAGS)
# Kernels run where they were built; set KERNEL_ARCH for a build that travels.
KERNEL_ARCH ?= native
# -Wno-pass-failed: a loop that clang cannot vectorise is slower, not wrong (gcc does not know the name and does not mind).
KERNEL_CFLAGS := -O3 -march=$(KERNEL_ARCH) -fopenmp -fno-math-errno -fno-trapping-math -Wno-pass-failed
# gcc halves its vectors where 512 bits could lower the clock; loops of e^x gain far more than that costs.
KERNEL_CFLAGS += $(if $(filter x86_64,$(shell uname -m)),-mprefer-vector-width=512)
LDFLAGS_ALL := $(SAN_FLAGS) -pthread -Wl,--as-needed $(LDFLAGS)

# ---- libraries: one a folder -------------------------------------------------------------------------------------------
sources = $(filter-out %/main.c,$(wildcard $(addsuffix /*.c,$(1))))
SRC_common := $(call sources,common)
SRC_schema := $(call sources,schema)
SRC_checkpoint := $(call sources,checkpoint)
SRC_planner := $(call sources,planner)
SRC_core := $(call sources,daemon/core)
SRC_daemon := $(call sources,daemon)
SRC_agent := $(call sources,agent)
SRC_shim := $(call sources,agent/shim)
SRC_sim := $(call sources,sim)
SRC_launcher := $(call sources,launcher)
SRC_kernels := $(call sources,kernels kernels/cpu)
SRC_runtime := $(call sources,runtime $(patsubst %/,%,$(wildcard runtime/*/)))
PARTS := common schema checkpoint planner core daemon agent shim sim launcher kernels runtime

# what each part links with, nearest first (arrows go one way)
USES_common := common
USES_schema := schema common
USES_checkpoint := checkpoint common
USES_planner := planner schema common
USES_core := core planner schema common
USES_daemon := daemon core planner schema common
USES_agent := agent schema common
USES_shim := shim checkpoint schema common
USES_sim := sim core planner schema common
USES_launcher := launcher checkpoint sim core planner schema common
USES_kernels := kernels common
USES_runtime := runtime checkpoint kernels planner schema common
SYSLIBS_common = $(LIBS_COMMON) -lm
SYSLIBS_schema = $(LIBS_SCHEMA) $(SYSLIBS_common)
SYSLIBS_checkpoint = $(LIBS_CHECKPOINT) $(SYSLIBS_common)
SYSLIBS_planner = $(SYSLIBS_schema)
SYSLIBS_core = $(SYSLIBS_schema)
SYSLIBS_sim = $(SYSLIBS_schema)
SYSLIBS_daemon = $(LIBS_DAEMON) $(SYSLIBS_schema)
SYSLIBS_agent = $(LIBS_AGENT) $(SYSLIBS_schema)
SYSLIBS_shim = $(LIBS_SHIM) $(LIBS_AGENT) $(LIBS_CHECKPOINT) $(SYSLIBS_schema)
SYSLIBS_launcher = $(LIBS_LAUNCHER) $(LIBS_CHECKPOINT) $(SYSLIBS_schema)
SYSLIBS_kernels = -fopenmp $(LIBS_KERNELS) $(SYSLIBS_common)
SYSLIBS_runtime = -ldl -fopenmp $(LIBS_RUNTIME) $(LIBS_KERNELS) $(SYSLIBS_schema)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
archives = $(patsubst %,$(BUILD)/lib/lib%.a,$(USES_$(1)))
.SECONDEXPANSION:
$(BUILD)/lib/lib%.a: $$(call obj,$$(SRC_$$*)) $$(MORE_$$*)
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/obj/kernels/%.o $(BUILD)/obj/runtime/%.o: CFLAGS_ALL += $(KERNEL_CFLAGS)
# a*b+c in one instruction, which -std=c11 forbids: attention doubles its speed by it. Elsewhere what cancels exactly is to go on doing so.
$(BUILD)/obj/kernels/cpu/attention.o $(BUILD)/obj/kernels/cpu/attention.bf16.o: CFLAGS_ALL += -ffp-contract=fast
# The CPU's kernels once more, for activations in bf16 (kernels/cpu/elem.h).
BF16_SRC := $(filter-out $(addprefix kernels/cpu/,blas.c budget.c open.c room.c),$(wildcard kernels/cpu/*.c))
MORE_kernels := $(patsubst %.c,$(BUILD)/obj/%.bf16.o,$(BF16_SRC))
$(BUILD)/obj/%.bf16.o: %.c
	@mkdir -p $(@D)
	@echo "  CC $< (bf16)"
	@$(CC) $(CPPFLAGS_ALL) -DBELAY_ACT_BF16 $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# SQL migrations become one C array, in the order of their numbers.
$(BUILD)/gen/migrations.inc: $(sort $(wildcard schema/sql/*.sql)) tools/embed-sql.sh
	@mkdir -p $(@D)
	@bash tools/embed-sql.sh $(sort $(wildcard schema/sql/*.sql)) >$@
$(BUILD)/obj/daemon/store.o: $(BUILD)/gen/migrations.inc

# ---- programs ----------------------------------------------------------------------------------------------------------
PROGRAMS := belayd belay-agent belay-shim belay-train belay
MAIN_belayd := daemon
MAIN_belay-agent := agent
MAIN_belay-shim := shim
MAIN_belay-train := runtime
MAIN_belay := launcher
DIR_daemon := daemon
DIR_agent := agent
DIR_shim := agent/shim
DIR_runtime := runtime
DIR_launcher := launcher
BINARIES := $(addprefix $(BUILD)/bin/,$(PROGRAMS))

all: $(BINARIES)

define program
$(BUILD)/bin/$(1): $(BUILD)/obj/$(DIR_$(MAIN_$(1)))/main.o $(call archives,$(MAIN_$(1)))
	@mkdir -p $$(@D)
	@echo "  LD $$@"
	@$(CC) $(LDFLAGS_ALL) $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(SYSLIBS_$(MAIN_$(1))) -o $$@
endef
$(foreach p,$(PROGRAMS),$(eval $(call program,$(p))))

# ---- tests -------------------------------------------------------------------------------------------------------------
# tests/unit/<part>/<module>_test.c is linked with its part and what that uses.
UNIT_SRC := $(wildcard tests/unit/*/*_test.c)
UNIT := $(patsubst tests/%.c,$(BUILD)/tests/%,$(filter-out tests/unit/double/%,$(UNIT_SRC)))
define unit
$(BUILD)/tests/unit/$(1)/%_test: $(BUILD)/obj/tests/unit/$(1)/%_test.o $(call archives,$(1))
	@mkdir -p $$(@D)
	@echo "  LD $$@"
	@$(CC) $(LDFLAGS_ALL) $$< -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(SYSLIBS_$(1)) -lcmocka -o $$@
endef
$(foreach p,$(PARTS),$(eval $(call unit,$(p))))
# compares the runtime's mesh with the one of placement
$(BUILD)/tests/unit/runtime/mesh_test: $(call archives,core)
# compare the runtime's counts of FLOPs and parameters with the planner's
$(addprefix $(BUILD)/tests/unit/runtime/,model_test layout_test): $(call archives,planner)

# The reference: kernels, model, communication and engine compiled a second time with double as their number type, for tests/unit/double and
# tests/mesh.
DOUBLE_SRC := $(SRC_kernels) $(wildcard runtime/model/*.c runtime/comm/*.c runtime/engine/*.c)
DOUBLE_OBJ := $(patsubst %.c,$(BUILD)/double/%.o,$(DOUBLE_SRC))
DOUBLE := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/double/*_test.c))
$(BUILD)/double/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC $< (double)"
	@$(CC) $(CPPFLAGS_ALL) -DBELAY_REAL_DOUBLE $(CFLAGS_ALL) $(KERNEL_CFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/tests/unit/double/%_test: $(BUILD)/double/tests/unit/double/%_test.o $(DOUBLE_OBJ) $(call archives,schema)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CC) $(LDFLAGS_ALL) $^ -fopenmp $(SYSLIBS_schema) $(LIBS_KERNELS) $(LIBS_RUNTIME) -lcmocka -o $@

# tests/mesh: every mesh against one rank in double (tests/integration/mesh_test.sh).
MESH := $(BUILD)/tests/mesh/mesh_reference $(BUILD)/tests/mesh/mesh_check
$(BUILD)/tests/mesh/mesh_reference: $(BUILD)/double/tests/mesh/mesh_reference.o $(DOUBLE_OBJ) $(call archives,schema)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CC) $(LDFLAGS_ALL) $^ -fopenmp $(LIBS_RUNTIME) $(SYSLIBS_schema) $(LIBS_KERNELS) -o $@
$(BUILD)/tests/mesh/mesh_check: $(BUILD)/obj/tests/mesh/mesh_check.o $(call archives,runtime)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(SYSLIBS_runtime) -o $@

# ---- the CUDA backend (docs/cuda.md) ----------------------------------------------------------------------------------
# libbelay_cuda.so, where there is a toolkit: CUDA_HOME, else nvcc in the PATH, else /usr/local/cuda. NO_CUDA=1 leaves it out, and so does a header of cuBLAS or
# NCCL that the compiler does not find, with a line that says so. What ptxas says of registers is kept beside each object (FILE.ptxas).
CUDA_SRC := $(wildcard kernels/cuda/*.cu)
NCCL_SRC := $(wildcard runtime/comm/nccl/*.c)
CUDA_COMMON := $(addprefix common/,clock.c err.c fsutil.c log.c mem.c)
CUDA_EXPORTS := kernels/cuda/exports.map
NVCC := $(if $(NO_CUDA)$(SANITIZER),,$(firstword $(wildcard $(CUDA_HOME:%=%/bin/nvcc)) $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA_ROOT := $(patsubst %/bin/nvcc,%,$(NVCC))
# A100, Hopper, and by the driver's compiler whatever is newer
CUDA_ARCH := -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=compute_80 -gencode=arch=compute_90a,code=sm_90a
NVCC_FLAGS := -std=c++17 -O3 -lineinfo $(CUDA_ARCH) -Werror all-warnings -Xptxas -v -Xcompiler -fPIC,-fvisibility=hidden -I. -D_GNU_SOURCE
hash := \#
CUDA_MISSING := $(if $(NVCC),$(shell printf '$(hash)if !__has_include(<%s>)\n%s\n$(hash)endif\n' cublasLt.h cublasLt.h nccl.h nccl.h | $(CC) -E -P -isystem $(CUDA_ROOT)/include -x c - | xargs))
CUDA_LIB := $(if $(NVCC),$(if $(CUDA_MISSING),,$(BUILD)/lib/libbelay_cuda.so))
CUDA_OBJ := $(patsubst %,$(BUILD)/cuda/%.o,$(basename $(CUDA_SRC) $(NCCL_SRC) $(CUDA_COMMON)))
CUDA_LINK := -shared -pthread -Wl,-z,defs -Wl,--as-needed -Wl,--version-script=$(CUDA_EXPORTS)
all: $(CUDA_LIB) $(if $(CUDA_MISSING),cuda-left-out)
cuda: $(or $(CUDA_LIB),cuda-left-out)
	@[ -n "$(CUDA_LIB)" ]
cuda-left-out:
	@echo "The CUDA backend is left out: there is $(or $(NVCC),no nvcc)$(if $(CUDA_MISSING), without $(CUDA_MISSING)). It needs CUDA 13 with the headers of cuBLAS and NCCL (README.md, With GPUs)." >&2
$(BUILD)/cuda/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  NVCC $<"
	@$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas) >&2; exit 1; }
$(BUILD)/cuda/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS_ALL) -isystem $(CUDA_ROOT)/include $(CFLAGS_ALL) -fvisibility=hidden -MMD -MP -c $< -o $@
$(BUILD)/lib/libbelay_cuda.so: $(CUDA_OBJ) $(CUDA_EXPORTS)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CXX) $(CUDA_LINK) $(LDFLAGS) $(CUDA_OBJ) -L$(CUDA_ROOT)/lib64 -Wl,-rpath,$(CUDA_ROOT)/lib64 -lcudart_static -lcublasLt -lnccl -ldl -lrt -o $@

# docs/cuda-registers.md: what each kernel takes, so that a change of it is seen in review; make lint compares where nvcc is.
CUDA_PTXAS := $(patsubst %.cu,$(BUILD)/cuda/%.ptxas,$(CUDA_SRC))
cuda-registers: $(CUDA_LIB)
	@bash tools/cuda-registers.sh $(NVCC) $(CUDA_PTXAS) >$(BUILD)/cuda/registers.md; rc=$$?; cp $(BUILD)/cuda/registers.md docs/cuda-registers.md; exit $$rc
lint-cuda-registers: $(CUDA_LIB)
	@bash tools/cuda-registers.sh --check docs/cuda-registers.md $(NVCC) $(CUDA_PTXAS)

# The same sources are compiled for the host by the emulator of tests/emu: plainly into a backend that belay-train loads, and with sanitizers into the
# programs of tests/cuda.
EMU_FLAGS := -std=c++17 -O2 -g1 -fno-strict-aliasing -ftrivial-auto-var-init=pattern -fPIC -pthread -Wall -Wextra -Werror -Wno-unknown-pragmas -Itests/emu/include -I. -D_GNU_SOURCE
EMU_SRC := $(wildcard tests/emu/*.cpp)
EMU_LIB := $(BUILD)/emu/lib/libbelay_cuda.so
EMU_OBJ := $(patsubst %,$(BUILD)/emu/%.o,$(basename $(CUDA_SRC) $(NCCL_SRC) $(CUDA_COMMON) $(EMU_SRC)))
$(BUILD)/emu/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  EMU $< (plain)"
	@$(CXX) $(EMU_FLAGS) -fvisibility=hidden -x c++ -MMD -MP -c $< -o $@
$(BUILD)/emu/%.o: %.cpp
	@mkdir -p $(@D)
	@$(CXX) $(EMU_FLAGS) $(PKG_CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(BUILD)/emu/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) -Itests/emu/include $(CPPFLAGS_ALL) $(filter-out $(SAN_FLAGS),$(CFLAGS_ALL)) -fvisibility=hidden -MMD -MP -c $< -o $@
$(EMU_LIB): $(EMU_OBJ) $(CUDA_EXPORTS)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CXX) $(CUDA_LINK) $(EMU_OBJ) $(call libs,ompi-c) -o $@

# Compiled half as long as with -O2, and what runs is as fast: the checks are what it does. The tests around the kernels are not worth optimising.
EMU_SAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
CUDA_TEST_SRC := $(wildcard tests/cuda/*_test.cpp)
CUDA_TESTS := $(patsubst tests/%.cpp,$(BUILD)/tests/%,$(CUDA_TEST_SRC))
EMU_SAN_OBJ := $(patsubst %.cu,$(BUILD)/emu-san/%.o,$(CUDA_SRC))
$(BUILD)/emu-san/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  EMU $<"
	@$(CXX) $(EMU_FLAGS) $(EMU_SAN) -x c++ -MMD -MP -c $< -o $@
$(BUILD)/emu-san/%.o: %.cpp
	@mkdir -p $(@D)
	@echo "  EMU $<"
	@$(CXX) $(EMU_FLAGS) $(EMU_SAN) -O0 -MMD -MP -c $< -o $@
# The emulator itself is compiled without sanitizers: it would check its own switching of stacks.
$(BUILD)/emu-san/tests/emu/%.o: tests/emu/%.cpp
	@mkdir -p $(@D)
	@$(CXX) $(EMU_FLAGS) -DEMU_ASAN -MMD -MP -c $< -o $@
# without NCCL, which needs MPI
EMU_CORE := $(patsubst tests/emu/%.cpp,$(BUILD)/emu-san/tests/emu/%.o,$(filter-out tests/emu/nccl.cpp,$(EMU_SRC)))
$(BUILD)/tests/cuda/%_test: $(BUILD)/emu-san/tests/cuda/%_test.o $(EMU_SAN_OBJ) $(EMU_CORE) $(filter $(BUILD)/double/kernels/%,$(DOUBLE_OBJ)) $(call archives,common)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CXX) $(EMU_SAN) $^ -fopenmp $(LIBS_KERNELS) $(SYSLIBS_common) -lcmocka -o $@

# And once more against the toolkit, for a GPU (tests/gpu/run.sh); not what is about the emulator itself. Some have kernels of their own: nvcc compiles all.
GPU_TESTS := $(patsubst tests/cuda/%.cpp,$(BUILD)/tests/gpu/%,$(filter-out $(patsubst %,tests/cuda/%_test.cpp,backend cublaslt planted streams),$(CUDA_TEST_SRC)))
gpu-tests: $(GPU_TESTS)
$(BUILD)/cuda/%.o: %.cpp
	@mkdir -p $(@D)
	@$(NVCC) -std=c++17 -O2 $(CUDA_ARCH) -x cu -I. -D_GNU_SOURCE -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(BUILD)/tests/gpu/%_test: $(BUILD)/cuda/tests/cuda/%_test.o $(BUILD)/cuda/tests/gpu/order.o $(CUDA_OBJ) $(filter $(BUILD)/double/kernels/%,$(DOUBLE_OBJ)) $(call archives,common)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CXX) $^ -fopenmp -L$(CUDA_ROOT)/lib64 -Wl,-rpath,$(CUDA_ROOT)/lib64 -lcudart_static -lcublasLt -lnccl -ldl -lrt $(LIBS_KERNELS) $(SYSLIBS_common) -lcmocka -o $@

# Small programs that integration tests start as ranks or tools: tests/programs/NAME.c (MPI) .
TOOL_SRC := $(filter-out %/faultfs.c,$(wildcard tests/programs/*.c))
TOOLS := $(patsubst tests/programs/%.c,$(BUILD)/tests/programs/%,$(TOOL_SRC)) $(addprefix $(BUILD)/tests/programs/,comm_check_double faultfs.so)
# Loaded before the C library by programs whose files are to fail. It goes before sanitizers, too, so it has none itself.
$(BUILD)/tests/programs/faultfs.so: tests/programs/faultfs.c
	@mkdir -p $(@D)
	@$(CC) -D_GNU_SOURCE -std=c11 $(WARN) -O2 -g -fPIC -shared -pthread $< -ldl -o $@
# tests/programs/encode.c is of the runtime.
$(BUILD)/tests/programs/encode: $(call archives,runtime)
$(BUILD)/tests/programs/memory_rank: $(call archives,checkpoint)
$(BUILD)/tests/programs/%: $(BUILD)/obj/tests/programs/%.o $(call archives,schema)
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS_RUNTIME) $(LIBS_SHIM) $(LIBS_DAEMON) $(SYSLIBS_schema) -o $@
$(BUILD)/tests/programs/upload_probe: $(BUILD)/obj/tests/programs/upload_probe.o $(call archives,checkpoint)
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(SYSLIBS_checkpoint) -o $@
# Those of the runtime's insides, and one of them in double.
$(addprefix $(BUILD)/tests/programs/,comm_check engine_check uploader_probe): $(BUILD)/tests/programs/%: $(BUILD)/obj/tests/programs/%.o $(call archives,runtime)
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(SYSLIBS_runtime) -o $@
$(BUILD)/tests/programs/comm_check_double: $(BUILD)/double/tests/programs/comm_check.o $(filter $(BUILD)/double/runtime/comm/%,$(DOUBLE_OBJ)) $(call archives,common)
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) $^ -fopenmp $(LIBS_RUNTIME) $(SYSLIBS_common) -o $@

# tests/sim: random faults on random small clusters around the core (docs/simulation.md).
SIM_CHECK_SRC := $(wildcard tests/sim/*.c)
SIM_SEEDS ?= 1000
SIM_FROM ?= 1
$(BUILD)/tests/sim/sim_check: $(call obj,$(SIM_CHECK_SRC)) $(call archives,sim)
	@mkdir -p $(@D)
	@echo "  LD $@"
	@$(CC) $(LDFLAGS_ALL) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(SYSLIBS_sim) -o $@
sim-check: $(BUILD)/tests/sim/sim_check
	@$< --seeds $(SIM_SEEDS) --from $(SIM_FROM)
# Does it find faults that were put into a copy of the core?
sim-check-planted: $(BUILD)/tests/sim/sim_check
	@bash tests/sim/planted.sh

INTEGRATION := $(sort $(wildcard tests/integration/*_test.sh))
# tests/interop: what is computed and written here against other programs, from npm packages that tests/interop/package-lock.json fixes.
# They are installed into $(BUILD)/interop, once for each change of that file; none of their install scripts is run.
INTEROP := $(sort $(wildcard tests/interop/*_test.sh))
export BELAY_INTEROP := $(CURDIR)/$(BUILD)/interop
$(BUILD)/interop/.installed: tests/interop/package.json tests/interop/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)/
	@echo "  NPM $(@D)"
	@cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null || \
	  { echo "The programs that tests/interop compares with could not be fetched from npm's registry (its reason is above)."; exit 1; } >&2
	@touch $@
export BELAY_BIN := $(CURDIR)/$(BUILD)/bin
export BELAY_TEST_PROGRAMS := $(CURDIR)/$(BUILD)/tests/programs
ifneq ($(SANITIZER),)
# tests/run-one.sh collects what sanitizers report and judges it: an error ends the program at once, a leak leaves its exit code alone (libraries
# leak, too). Sanitized programs are that much slower: limits of time in tests grow by it.
export BELAY_SANITIZER := $(SANITIZER)
export BELAY_TEST_SLOWDOWN := 4
export ASAN_OPTIONS := detect_leaks=1:abort_on_error=1:exitcode=0:detect_stack_use_after_return=0
export UBSAN_OPTIONS := print_stacktrace=1
export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp
endif
export CMOCKA_MESSAGE_OUTPUT := TAP

build-tests: all $(UNIT) $(DOUBLE) $(CUDA_TESTS) $(EMU_LIB) $(TOOLS) $(MESH) $(BUILD)/tests/sim/sim_check

TESTS ?= $(UNIT) $(DOUBLE) $(CUDA_TESTS) $(INTEGRATION) $(if $(SANITIZER),,$(INTEROP))
# check installs what is missing, then runs itself again so that pkg-config sees it.
check: deps
	@$(MAKE) --no-print-directory -j$$(nproc) build-tests
	@$(if $(SANITIZER),,$(MAKE) --no-print-directory -j$$(nproc) --output-sync=target lint)
	@$(MAKE) --no-print-directory check-run
check-run: build-tests $(if $(filter tests/interop/%,$(TESTS)),$(BUILD)/interop/.installed)
	@prove --timer -j$$(nproc) --exec 'bash tests/run-one.sh' $(TESTS)
# A run killed at every call that changes its checkpoint directory; make check takes a sample of them.
check-faults: all $(TOOLS)
	@FAULTS=all BELAY_TEST_LIMIT=3600 prove --timer --exec 'bash tests/run-one.sh' tests/integration/checkpoint_kill_test.sh
# Checkpoints of ten meshes on each of them: all hundred pairs; make check takes some.
check-reshard: all
	@RESHARD=all BELAY_TEST_LIMIT=3600 prove --timer --exec 'bash tests/run-one.sh' tests/integration/reshard_test.sh
check-interop: all $(TOOLS) $(BUILD)/interop/.installed
	@prove --timer --exec 'bash tests/run-one.sh' $(INTEROP)
unit: build-tests
	@prove -j$$(nproc) --exec 'bash tests/run-one.sh' $(UNIT) $(DOUBLE)

# ---- lint --------------------------------------------------------------------------------------------------------------
C_FILES := $(sort $(wildcard common/*.[ch] schema/*.[ch] checkpoint/*.[ch] planner/*.[ch] sim/*.[ch] daemon/*.[ch] daemon/core/*.[ch] agent/*.[ch] agent/shim/*.[ch] \
	launcher/*.[ch] kernels/*.[ch] kernels/cpu/*.[ch] runtime/*.[ch] runtime/*/*.[ch] runtime/comm/nccl/*.[ch] tests/unit/*.h tests/unit/*/*.[ch] tests/sim/*.[ch] tests/mesh/*.[ch] tests/programs/*.[ch] tests/fuzz/*.[ch] tests/bench/*.[ch]))
CXX_FILES := $(sort $(wildcard kernels/cuda/*.cu kernels/cuda/*.cuh kernels/cuda/*.h tests/cuda/* tests/emu/*.cpp tests/emu/*.h tests/emu/include/*))
# States that the analyzer follows in one function. Its own default of 225000 takes twice as long, for which there is make lint TIDY_NODES=225000.
TIDY_NODES ?= 60000
ANALYZER := $(foreach word,-analyzer-config max-nodes=$(TIDY_NODES),--extra-arg=-Xclang --extra-arg=$(word))
TIDY := $(patsubst %.c,$(BUILD)/lint/%.ok,$(filter-out tests/%,$(filter %.c,$(C_FILES))))
lint: lint-format lint-banned lint-arrows $(TIDY) lint-cppcheck $(if $(CUDA_LIB),lint-cuda-registers)
lint-format:
	@clang-format --dry-run -Werror $(C_FILES) $(CXX_FILES)
lint-banned:
	@bash tools/lint-banned.sh $(C_FILES)
lint-arrows:
	@bash tools/lint-arrows.sh $(C_FILES) $(wildcard kernels/cuda/*)
# In a fresh folder: what cppcheck keeps of one file names lines of others, and accuses innocent calls once those have moved.
lint-cppcheck:
	@rm -rf $(BUILD)/lint/cppcheck
	@cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr --enable=warning,portability --suppress=missingIncludeSystem \
	  --suppress=internalAstError --cppcheck-build-dir=$$(mkdir -p $(BUILD)/lint/cppcheck && echo $(BUILD)/lint/cppcheck) -I. -j2 \
	  $(filter-out tests/%,$(filter %.c,$(C_FILES)))
$(BUILD)/lint/%.ok: %.c .clang-tidy $(filter %.h,$(C_FILES)) | $(BUILD)/gen/migrations.inc
	@mkdir -p $(@D)
	@echo "  TIDY $<"
	@clang-tidy --quiet --warnings-as-errors='*' $(ANALYZER) $< -- $(CPPFLAGS_ALL) -isystem tests/emu/include -std=c11 -fopenmp >$(@D)/tidy.$$$$.log 2>&1 || { cat $(@D)/tidy.$$$$.log; rm -f $(@D)/tidy.$$$$.log; exit 1; }
	@rm -f $(@D)/tidy.$$$$.log
	@touch $@
format:
	@clang-format -i $(C_FILES) $(CXX_FILES)

# ---- fuzzing -----------------------------------------------------------------------------------------------------------
# tests/fuzz/fuzz_NAME.c with clang's libFuzzer, from the files in FUZZ_SEEDS_NAME; what it finds stays in $(BUILD)/fuzz.
FUZZ_SECONDS ?= 30
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SEEDS_job := tests/fixtures/jobs/valid examples
FUZZ_SEEDS_link := tests/fuzz/seeds/link
FUZZ_SEEDS_cluster := tests/topologies
FUZZ_SEEDS_scenario := examples
FUZZ_SEEDS_tokens := tests/fuzz/seeds/tokens
FUZZ_SEEDS_text := tests/fuzz/seeds/text
FUZZ_SEEDS_checkpoint := tests/fuzz/seeds/checkpoint
FUZZ_SEEDS_objects := tests/fuzz/seeds/objects
# FUZZ_SRC_NAME, FUZZ_LIBS_NAME: what one needs beyond schema/ and common/
FUZZ_SRC_tokens := $(addprefix runtime/data/,tokenfile.c megatron.c record.c)
FUZZ_SRC_text := $(wildcard runtime/text/*.c)
FUZZ_LIBS_text = $(LIBS_RUNTIME)
FUZZ_SRC_checkpoint := $(addprefix checkpoint/,box.c digest.c dtype.c manifest.c manifest_model.c safetensors.c) \
  $(addprefix runtime/convert/,hf_config.c tensors.c)
FUZZ_LIBS_checkpoint = $(LIBS_RUNTIME)
FUZZ_SRC_objects := checkpoint/objects_xml.c
FUZZ_LIBS_objects = $(LIBS_CHECKPOINT)
$(BUILD)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(SRC_schema) $(SRC_common) $$(FUZZ_SRC_$$*) $(wildcard schema/*.h common/*.h checkpoint/*.h runtime/*/*.h tests/fuzz/*.h)
	@mkdir -p $(@D)/corpus-$*
	@echo "  FUZZ $<"
	@clang $(CPPFLAGS_ALL) -std=c11 -O1 -g -pthread -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(filter %.c,$^) $(FUZZ_LIBS_$*) $(SYSLIBS_schema) -o $@
fuzz: $(patsubst %,$(BUILD)/fuzz/fuzz_%,$(FUZZ_NAMES))
	@set -e; $(foreach n,$(FUZZ_NAMES),$(BUILD)/fuzz/fuzz_$(n) -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -verbosity=0 \
	  -print_final_stats=1 -artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/corpus-$(n) $(FUZZ_SEEDS_$(n));)

# ---- the rest ----------------------------------------------------------------------------------------------------------
deps:
	@bash tools/deps.sh check
demo:
	@bash tools/deps.sh build
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@bash examples/demo.sh
# tests/bench/bench_NAME.c: a measurement of its own, over the runtime or the core.
$(BUILD)/obj/tests/bench/%.o: CFLAGS_ALL += $(KERNEL_CFLAGS)
$(BUILD)/tests/bench/%: $(BUILD)/obj/tests/bench/%.o $(sort $(call archives,runtime) $(call archives,sim))
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(SYSLIBS_runtime) -o $@
bench-kernels: $(BUILD)/tests/bench/bench_kernels
	@$<
	@$< --precision bf16
bench-train: $(BUILD)/tests/bench/bench_train
	@bash tests/bench/bench_train.sh
bench-checkpoint: $(BUILD)/tests/bench/bench_checkpoint $(BUILD)/bin/belay-train
	@bash tests/bench/bench_checkpoint.sh
bench-restore: all
	@bash tests/bench/bench_restore.sh
bench-turn: $(BUILD)/tests/bench/bench_turn
	@$<
bench-placement: $(BUILD)/tests/bench/bench_placement
	@$<
bench: all $(TOOLS) $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/bench_*.c))
	@bash tests/bench/run.sh
MAN1 := $(wildcard packaging/man/*.1)
MAN8 := $(wildcard packaging/man/*.8)
UNITS := $(wildcard packaging/systemd/*.service)
install: all
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin lib/systemd/system share/man/man1 share/man/man8 share/doc/belay/examples)
	install -m 755 $(BINARIES) $(DESTDIR)$(PREFIX)/bin/
	$(if $(CUDA_LIB),[ ! -e $(CUDA_LIB) ] || install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib/belay $(CUDA_LIB))
	install -m 644 README.md LICENSE docs/*.md $(DESTDIR)$(PREFIX)/share/doc/belay/
	install -m 644 $(wildcard examples/*.yaml examples/*.py) $(DESTDIR)$(PREFIX)/share/doc/belay/examples/
	install -m 755 examples/gather-text.sh $(DESTDIR)$(PREFIX)/share/doc/belay/examples/
	install -m 644 $(MAN1) $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 $(MAN8) $(DESTDIR)$(PREFIX)/share/man/man8/
	for u in $(UNITS); do sed 's,@bindir@,$(PREFIX)/bin,' $$u >$(DESTDIR)$(PREFIX)/lib/systemd/system/$${u##*/}; done
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(PROGRAMS))
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/share/man/man1/,$(notdir $(MAN1))) $(addprefix $(DESTDIR)$(PREFIX)/share/man/man8/,$(notdir $(MAN8)))
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/,$(notdir $(UNITS)))
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/belay $(DESTDIR)$(PREFIX)/lib/belay
clean:
	rm -rf build
help:
	@echo "make            build every program into build/bin/, and where CUDA is found build/lib/libbelay_cuda.so (NO_CUDA=1: not; make cuda: that alone)"
	@echo "make demo       install what is missing, build, and show a training job survive a kill and a drain"
	@echo "make check      install what is missing, build, lint, and run every test (SANITIZER=address|undefined|thread)"
	@echo "make check-interop  only the tests against other programs (tests/interop; needs npm's registry the first time)"
	@echo "make check-faults   training killed at every call that changes its checkpoints (make check: a sample)"
	@echo "make check-reshard  checkpoints of ten meshes loaded on each of them (make check: some pairs)"
	@echo "make unit       only the unit tests      make lint   only the linters     make format   clang-format in place"
	@echo "make sim-check  random faults on random small clusters around the core (SIM_SEEDS=1000 SIM_FROM=1); sim-check-planted: does it find faults?"
	@echo "make bench      measurements (docs/performance.md)      make fuzz   fuzz the readers of outside input"
	@echo "make install    PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)      make deps   only install the Debian packages"

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: cuda cuda-left-out cuda-registers lint-cuda-registers sim-check sim-check-planted all check check-run check-faults check-reshard check-interop unit build-tests bench-train bench-checkpoint bench-restore bench-turn bench-placement bench-kernels lint lint-format lint-banned lint-arrows lint-cppcheck format fuzz deps demo bench install uninstall clean help
.SECONDARY:
