/* emu: the machine behind emu_device.h. Compiled without -fsanitize, with -DEMU_ASAN or -DEMU_TSAN when the kernels are compiled with
 * -fsanitize=address or thread. */
#include "emu_device.h"
#include "tests/emu/machine.h"
#include <sys/mman.h>
#ifdef EMU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef EMU_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void *);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_acquire(void *);
void __tsan_release(void *);
}
#define EMU_ACQ(p) __tsan_acquire((void *)(p))
#define EMU_REL(p) __tsan_release((void *)(p))
#else
#define EMU_ACQ(p) ((void)(p))
#define EMU_REL(p) ((void)(p))
#endif
namespace emu
{
enum State : uint8_t { READY, WAIT_BLOCK, WAIT_WARP, WAIT_EVENT, DONE };
struct Stack {
    char *base;
    size_t size;
    void *tsan;
};
struct Cp {
    void *dst;
    const void *src;
    int n, group;
};
struct Thread : Cur {
    int lin;
    State st;
    void *sp;
    Stack stk;
    void *fake;
    const char *file;
    int line;
    int cp_group, ncp, capcp;
    Cp *cp;
    bool (*event)(void *); // WAIT_EVENT
    void *event_of;
    const char *event_name;
};
struct Group { // lanes of one warp meeting at one collective
    uint32_t mask, arrived;
    unsigned gen;
    const char *file;
    int line;
    const void *what;
    alignas(16) unsigned char buf[2][32][16];
};
struct Warp {
    uint32_t alive;
    int ng;
    Group g[8];
};
Cur *cur;
Blk B;
static Thread th[1024];
static Warp warps[32];
static uint64_t ready[16];
static int nready, nthr, alive, arrived;
static unsigned gen;
static long redv[2][2];
static uint32_t prio[32];
static Stack pool[1024];
[[maybe_unused]] static Stack main_stk;
static int npool;
static void *main_sp;
static const char *kname = "?";
static const std::function<void()> *body;
static char sy0[1024], *sy = sy0, tsan_start, tsan_end;
static void *dead[4096];
static int ndead;
[[maybe_unused]] static Stack old[8000];
[[maybe_unused]] static int nold;
enum Sched { FWD, REV, RAND };
static int sched = -1;
static bool warp_mode, cp_late = true, stirred, xblock;
static uint64_t rng;
static struct {
    const void *k;
    size_t n;
} limits[256];
static int nlimits;
uint32_t rnd()
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 16);
}
static Thread &me()
{
    return *(Thread *)cur;
}

void die(const char *msg, const char *f, int l)
{
    fflush(stdout);
    fprintf(stderr, "EMU ERROR: %s at %s:%d kernel %s", msg, f, l, kname);
    if (cur)
        fprintf(stderr, " block(%u,%u,%u) thread(%u,%u,%u)", B.bidx.x, B.bidx.y, B.bidx.z, cur->tidx.x,
                cur->tidx.y, cur->tidx.z);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(99);
}
#if !defined(__x86_64__)
#error "port emu_switch (or use swapcontext)"
#endif
extern "C" void emu_switch(void **save, void *to); // callee-saved registers, then swap rsp
asm(".text\nemu_switch:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n mov "
    "%rsp,(%rdi)\n mov %rsi,%rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
static void to_main(bool dying)
{
    Thread *t = (Thread *)cur;
    (void)dying;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(dying ? nullptr : &t->fake, main_stk.base, main_stk.size);
#endif
#ifdef EMU_TSAN
    __tsan_switch_to_fiber(main_stk.tsan, 1);
#endif
    emu_switch(&t->sp, main_sp);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(t->fake, nullptr, nullptr);
#endif
}
static void wake(Thread &t)
{
    t.st = READY;
    ready[t.lin >> 6] |= 1ull << (t.lin & 63);
    nready++;
}
static void block_release()
{
    arrived = 0;
    gen++;
    for (int i = 0; i < nthr; i++)
        if (th[i].st == WAIT_BLOCK)
            wake(th[i]);
}
static void group_done(Group &g, int warp)
{
    uint32_t m = g.arrived;
    g.arrived = 0;
    g.gen++;
    for (; m; m &= m - 1)
        wake(th[warp * 32 + __builtin_ctz(m)]);
}
static void fiber_main()
{
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, (const void **)&main_stk.base, &main_stk.size);
#endif
    EMU_ACQ(&tsan_start);
    (*body)();
    Thread &t = me();
    if (t.ncp)
        die("thread exits with unfinished cp.async", t.file, t.line);
    engine_thread_end();
    t.st = DONE;
    alive--;
    Warp &w = warps[t.warp];
    w.alive &= ~(1u << t.lane);
    for (int i = 0; i < w.ng; i++)
        if (w.g[i].arrived && w.g[i].arrived == (w.g[i].mask & w.alive))
            group_done(w.g[i], t.warp);
    if (arrived && arrived == alive)
        block_release();
    EMU_REL(&tsan_end);
    to_main(true);
    abort();
}
static Stack get_stack()
{
    if (npool)
        return pool[--npool];
#if defined(EMU_ASAN) || defined(EMU_TSAN)
    size_t sz = 256 * 1024;
#else
    size_t sz = 64 * 1024;
#endif
    char *p = (char *)mmap(nullptr, sz + 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        die("mmap stack");
    mprotect(p, 4096, PROT_NONE);
    Stack s{p + 4096, sz, nullptr};
#ifdef EMU_TSAN
    s.tsan = __tsan_create_fiber(0);
#endif
    return s;
}
static void run_thread(Thread &t)
{
    if (!t.sp) {
        t.stk = get_stack();
        void **s = (void **)(t.stk.base + t.stk.size);
        *--s = nullptr;
        *--s = (void *)fiber_main;
        for (int i = 0; i < 6; i++)
            *--s = nullptr;
        t.sp = s;
    }
    cur = &t;
#ifdef EMU_ASAN
    void *fake;
    __sanitizer_start_switch_fiber(&fake, t.stk.base, t.stk.size);
#endif
#ifdef EMU_TSAN
    main_stk.tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(t.stk.tsan, 1);
#endif
    emu_switch(&main_sp, t.sp);
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
#ifdef EMU_TSAN
    if (t.st == DONE && xblock) {
        if (nold == 8000)
            die("EMU_XBLOCK: too many threads in one launch (8000)");
        old[nold++] = t.stk;
    } else // a fiber per thread: no history carried from block to block
#endif
        if (t.st == DONE)
        pool[npool++] = t.stk;
    cur = nullptr;
}
static int pick()
{ // next thread to run, by policy
    int n = (nthr + 63) / 64, r = -1;
    if (sched == FWD) {
        for (int i = 0; i < n; i++)
            if (ready[i]) {
                r = i * 64 + __builtin_ctzll(ready[i]);
                break;
            }
    } // lowest thread first
    else if (sched == REV) {
        for (int i = n - 1; i >= 0; i--)
            if (ready[i]) {
                r = i * 64 + 63 - __builtin_clzll(ready[i]);
                break;
            }
    } // highest first
    else if (warp_mode) {
        for (int w = 0, best = -1; w * 32 < nthr; w++)
            if ((uint32_t)(ready[w / 2] >> (w % 2 * 32)) && (best < 0 || prio[w] > prio[best])) {
                best = w;
                r = w * 32 + __builtin_ctz((uint32_t)(ready[w / 2] >> (w % 2 * 32)));
            }
    } else
        for (int k = rnd() % nthr;; k = k + 1 < nthr ? k + 1 : 0)
            if (ready[k >> 6] >> (k & 63) & 1) {
                r = k;
                break;
            } // any thread
    ready[r >> 6] &= ~(1ull << (r & 63));
    nready--;
    return r;
}
static void wake_waiting()
{
    stirred = false;
    for (int i = 0; i < nthr; i++)
        if (th[i].st == WAIT_EVENT && th[i].event(th[i].event_of))
            wake(th[i]);
}
// Is there a thread to run, after what the others and the engine have done?
static bool runnable()
{
    if (stirred || !nready || (sched == RAND && engine_step(64)))
        wake_waiting();
    while (!nready && alive && engine_step(1))
        wake_waiting();
    return nready;
}
static const char *waits_at(const Thread &t)
{
    return t.st == WAIT_BLOCK ? "__syncthreads" : t.st == WAIT_EVENT ? t.event_name : "warp op";
}
static void run_block()
{
    int n = nthr;
    alive = n;
    arrived = 0;
    for (int w = 0; w * 32 < n; w++) {
        int k = std::min(32, n - w * 32);
        warps[w].alive = k == 32 ? ~0u : (1u << k) - 1;
        warps[w].ng = 0;
        prio[w] = rnd();
    }
    nready = 0;
    memset(ready, 0, sizeof ready);
    warp_mode = rnd() & 1;
    if (sched == RAND)
        cp_late = rnd() & 1;
    for (int i = 0; i < n; i++) {
        Thread &t = th[i];
        t.tidx = {i % B.bdim.x, i / B.bdim.x % B.bdim.y, i / (B.bdim.x * B.bdim.y)};
        t.lin = i;
        t.lane = i & 31;
        t.warp = i >> 5;
        t.sp = nullptr;
        t.file = "";
        t.line = 0;
        t.cp_group = t.ncp = 0;
        wake(t);
    }
    if (B.dyn_size) {
        void *p;
        if (posix_memalign(&p, 128, B.dyn_size))
            die("smem");
        B.dyn = (unsigned char *)p;
        poison(p, B.dyn_size);
    }
    engine_begin();
    EMU_REL(&tsan_start);
    while (runnable())
        run_thread(th[pick()]);
    if (alive) {
        for (int i = 0, c = 0; i < n && c < 6; i++)
            if (th[i].st != DONE) {
                c++;
                fprintf(stderr, "  thread %d waits at %s %s:%d\n", i, waits_at(th[i]), th[i].file,
                        th[i].line);
            }
        die("deadlock: divergent barrier or warp collective, or an event that does not come");
    }
    engine_end();
}
static void schedule(const char *order, uint64_t seed)
{
    const char *copies = getenv("EMU_CPASYNC");
    xblock = getenv("EMU_XBLOCK");
    sched = !strcmp(order, "fwd") ? FWD : !strcmp(order, "rev") ? REV : RAND;
    if (copies)
        cp_late = strcmp(copies, "early") != 0;
    rng = seed * 0x9E3779B97F4A7C15ull | 1;
    for (int i = 0; i < 8; i++)
        rnd();
}
static void shared_drop();
static bool launch_fits(const grid &l)
{
    size_t n = (size_t)l.threads.x * l.threads.y * l.threads.z;
    size_t lim = 48 * 1024;
    for (int i = 0; i < nlimits; i++)
        if (limits[i].k == l.key)
            lim = limits[i].n;
    bool blocks = l.blocks.x > 0 && l.blocks.y > 0 && l.blocks.z > 0 && l.blocks.x <= INT32_MAX &&
                  l.blocks.y <= 65535 && l.blocks.z <= 65535;
    if (blocks && n > 0 && n <= 1024 && l.threads.z <= 64 && l.dyn <= lim)
        return true;
    fprintf(stderr,
            "EMU: invalid launch of %s: (%u,%u,%u) blocks of %zu threads, %zu bytes of DYN_SHARED (limit "
            "%zu)\n",
            l.name, l.blocks.x, l.blocks.y, l.blocks.z, n, l.dyn, lim);
    report(l.dyn > lim ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration);
    return false;
}
static void run_grid(const grid &l, const std::function<void()> &work);
void launch_grid(const grid &l, cudaStream_t stream, std::function<void()> work)
{
    if (cur)
        die("launch from a kernel");
    if (device_number() < 0)
        report(cudaErrorNoDevice);
    else if (launch_fits(l) && report(may_enqueue(stream)) == cudaSuccess)
        enqueue(
            stream,
            [l, work = std::move(work)] {
                run_grid(l, work);
                return true;
            },
            l.name);
}
static void run_grid(const grid &l, const std::function<void()> &work)
{
    if (sched < 0) {
        const char *order = getenv("EMU_SCHED"), *seed = getenv("EMU_SEED");
        schedule(order ? order : "fwd", seed ? strtoull(seed, 0, 10) : 1);
    }
    dim3 g = l.blocks, b = l.threads;
    size_t n = (size_t)b.x * b.y * b.z, nb = (size_t)g.x * g.y * g.z, smem = l.dyn;
    const char *name = l.name;
    kname = name;
    nthr = (int)n;
    B.bdim = b;
    B.gdim = g;
    B.dyn_size = smem;
    body = &work;
    for (size_t i = 0; i < nb; i++) {
        size_t k = sched == REV ? nb - 1 - i : i;
        B.bidx = {(unsigned)(k % g.x), (unsigned)(k / g.x % g.y), (unsigned)(k / ((size_t)g.x * g.y))};
        run_block();
        shared_drop();
        if (!xblock) {
            EMU_ACQ(&tsan_end);
            free(B.dyn);
        } else {
            if (ndead < 4096)
                dead[ndead++] = B.dyn;
            sy = (char *)malloc(1024);
        } // xblock: leave blocks unordered, so that races between blocks show
        B.dyn = nullptr;
    }
    EMU_ACQ(&tsan_end);
    while (ndead)
        free(dead[--ndead]);
#ifdef EMU_TSAN
    while (nold) {
        Stack s = old[--nold];
        __tsan_destroy_fiber(s.tsan);
        munmap(s.base - 4096, s.size + 4096);
    }
#endif
    kname = "?";
}
void barrier(const char *f, int l)
{
    Thread &t = me();
    t.file = f;
    t.line = l;
    unsigned par = gen & 1;
    EMU_REL(sy + par);
    if (arrived)
        for (int i = 0; i < nthr; i++)
            if (th[i].st == WAIT_BLOCK) {
                if (th[i].line != l || strcmp(th[i].file, f))
                    die("threads of one block wait at different __syncthreads", f, l);
                break;
            }
    t.st = WAIT_BLOCK;
    if (++arrived == alive)
        block_release();
    to_main(false);
    EMU_ACQ(sy + par);
}
int barrier_red(int p, int kind, const char *f, int l)
{
    long *r = redv[gen & 1];
    if (!arrived)
        r[0] = r[1] = 0;
    r[0] += p != 0;
    r[1]++;
    barrier(f, l);
    return kind == 0 ? (int)r[0] : kind == 1 ? r[0] == r[1] : r[0] != 0;
}
uint32_t live_lanes()
{
    return warps[cur->warp].alive;
}
Bufs meet(uint32_t mask, const void *v, int n, const char *f, int l, const void *what, void (*fn)(Bufs))
{
    Thread &t = me();
    Warp &w = warps[t.warp];
    t.file = f;
    t.line = l;
    int i = 0;
    if (!(mask >> t.lane & 1))
        die("calling lane is not in its own mask", f, l);
    while (i < w.ng && w.g[i].mask != mask)
        i++;
    if (i == w.ng) {
        if (i == 8)
            die("too many different masks in one warp", f, l);
        w.ng++;
        w.g[i].mask = mask;
        w.g[i].arrived = 0;
        w.g[i].gen = 0;
    }
    Group &g = w.g[i];
    unsigned par = g.gen & 1;
    if (!g.arrived) {
        g.file = f;
        g.line = l;
        g.what = what;
    } else if (g.line != l || g.what != what || strcmp(g.file, f))
        die("lanes of one warp meet at different warp operations", f, l);
    for (int k = 0; k < n; k++)
        g.buf[par][t.lane][k] = ((const unsigned char *)v)[k];
    g.arrived |= 1u << t.lane;
    EMU_REL(sy + 2 + (t.warp * 8 + i) * 2 + par);
    t.st = WAIT_WARP;
    if (g.arrived == (mask & w.alive)) {
        if (fn) {
            EMU_ACQ(sy + 2 + (t.warp * 8 + i) * 2 + par);
            fn(g.buf[par]);
            EMU_REL(sy + 2 + (t.warp * 8 + i) * 2 + par);
        }
        group_done(g, t.warp);
    }
    to_main(false);
    EMU_ACQ(sy + 2 + (t.warp * 8 + i) * 2 + par);
    return g.buf[par];
}
void cp_async(void *dst, const void *src, int n, const char *f, int l)
{
    Thread &t = me();
    t.file = f;
    t.line = l;
    if (((uintptr_t)dst | (uintptr_t)src) & (n - 1))
        die("cp.async address not aligned", f, l);
    if ((unsigned char *)dst < B.dyn || (unsigned char *)dst + n > B.dyn + B.dyn_size)
        die("cp.async outside dynamic shared memory", f, l);
    static const char zeros[16] = {0};
    if (!src)
        src = zeros;
    char tmp[16];
    memcpy(tmp, src, n); // checked by ASan
#ifndef EMU_TSAN
    if (cp_late) {
        poison(dst, n);
        if (t.ncp == t.capcp)
            t.cp = (Cp *)realloc(t.cp, (t.capcp = t.capcp * 2 + 16) * sizeof(Cp));
        t.cp[t.ncp++] = {dst, src, n, t.cp_group};
        return;
    }
#endif
    memcpy(dst, tmp, n);
}
void cp_commit()
{
    me().cp_group++;
}
void cp_wait(int keep)
{
    Thread &t = me();
    int k = 0;
    for (int i = 0; i < t.ncp; i++) {
        Cp c = t.cp[i];
        if (c.group < t.cp_group - keep)
            memcpy(c.dst, c.src, c.n);
        else
            t.cp[k++] = c;
    }
    t.ncp = k;
}
void wait_until(bool (*ready)(void *), void *of, const char *name, const char *f, int l)
{
    Thread &t = me();
    if (!ready(of)) {
        t.file = f;
        t.line = l;
        t.event = ready;
        t.event_of = of;
        t.event_name = name;
        t.st = WAIT_EVENT;
        to_main(false);
    }
    EMU_ACQ(sy + 1000);
}
void changed()
{
    EMU_REL(sy + 1000);
    stirred = true;
}
bool at_once()
{
    return sched == RAND ? rnd() & 1 : sched == REV || !cp_late;
}
} // namespace emu

/* ---- fixed shared memory ---- */
namespace emu
{
struct Shared {
    const void *key;
    void *p;
};
static Shared fixed[64];
static int n_fixed;
void *shared(const void *key, size_t bytes)
{
    for (int i = 0; i < n_fixed; i++)
        if (fixed[i].key == key)
            return fixed[i].p;
    if (n_fixed == 64)
        die("more than 64 SHARED arrays in one block");
    void *p;
    if (posix_memalign(&p, 128, bytes))
        die("shared memory");
    poison(p, bytes);
    fixed[n_fixed].key = key;
    fixed[n_fixed++].p = p;
    return p;
}
static void shared_drop()
{
    while (n_fixed)
        free(fixed[--n_fixed].p);
}
} // namespace emu
/* ---- limits ---- */
#define EMU_API extern "C" cudaError_t
EMU_API cudaFuncSetAttribute(const void *k, cudaFuncAttribute a, int v)
{
    if (a != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (v < 0 || (size_t)v > emu::device_shared_limit())
        return emu::report(cudaErrorInvalidValue);
    int i = 0;
    while (i < emu::nlimits && emu::limits[i].k != k)
        i++;
    if (i == emu::nlimits) {
        if (i == 256)
            return emu::report(cudaErrorInvalidValue);
        emu::nlimits++;
    }
    emu::limits[i].k = k;
    emu::limits[i].n = v;
    return cudaSuccess;
}
extern "C" void emu_schedule(const char *order, uint64_t seed)
{
    emu::schedule(order, seed);
}
