/* hopper: the machine behind emu_hopper.h: mbarriers, barriers with a number, TMA and wgmma, as the PTX ISA describes them.
 *
 * Loads and products wait in queues: a load in one of the block, until engine_step or its issue does it; a product in that of its warpgroup, whose products
 * are done in the order of their issue, none before all 128 threads have issued it, and at the latest in the wgmma_wait for its group. */
#include "emu_hopper.h"

#include <vector>

#include "tests/emu/machine.h"

namespace emu
{
/* ---- addresses of shared memory: 18 bits, from a place on that differs from block to block ---- */

static uint32_t window;

uint32_t shared_address(const void *x, const char *f, int l)
{
    const unsigned char *p = (const unsigned char *)x;
    if (p < B.dyn || p > B.dyn + B.dyn_size)
        die("shared_address of what is not dynamic shared memory", f, l);
    return window + (uint32_t)(p - B.dyn);
}

static unsigned char *shared_at(uint32_t address, size_t bytes, const char *what, const char *f, int l)
{
    if (address < window || address + bytes > window + B.dyn_size)
        die(what, f, l);
    return B.dyn + (address - window);
}

/* Where the 128-byte swizzle puts what would lie here. */
static uint32_t swizzled(uint32_t address)
{
    return address ^ (address >> 7 & 7) << 4;
}

/* ---- mbarriers ---- */

struct Mbarrier {
    uint64_t pending : 20, expected : 20;
    int64_t bytes : 21; // announced less come
    uint64_t parity : 1, fenced : 1, poison : 1;
};
static_assert(sizeof(Mbarrier) == 8);
static std::vector<Mbarrier *> unfenced;

static Mbarrier *mbarrier(uint64_t *b, const char *f, int l)
{
    Mbarrier *m = (Mbarrier *)b;
    if (m->poison)
        die("mbarrier is not initialised", f, l);
    return m;
}

static void advance(Mbarrier *m)
{
    if (m->pending || m->bytes)
        return;
    m->pending = m->expected;
    m->parity ^= 1;
    changed();
}

void mbarrier_init(uint64_t *b, uint32_t count, const char *f, int l)
{
    if ((uintptr_t)b % 8 || count < 1 || count >= 1u << 20)
        die("mbarrier.init of a wrong address or count", f, l);
    Mbarrier m = {count, count, 0, 0, 0, 0};
    memcpy(b, &m, sizeof m);
    unfenced.push_back((Mbarrier *)b);
}

void mbarrier_init_fence()
{
    for (Mbarrier *m : unfenced)
        m->fenced = 1;
    unfenced.clear();
}

void mbarrier_arrive(uint64_t *b, uint32_t bytes, const char *f, int l)
{
    Mbarrier *m = mbarrier(b, f, l);
    if (m->pending == 0)
        die("more arrivals at an mbarrier than its count", f, l);
    m->bytes += bytes;
    m->pending--;
    advance(m);
}

struct Phase {
    Mbarrier *m;
    uint32_t parity;
};

void mbarrier_wait(uint64_t *b, uint32_t parity, const char *f, int l)
{
    Phase p = {mbarrier(b, f, l), parity};
    auto ended = [](void *x) { return ((Phase *)x)->m->parity != ((Phase *)x)->parity; };
    if (parity > 1)
        die("the parity of an mbarrier's phase is 0 or 1", f, l);
    wait_until(ended, &p, "mbarrier_wait", f, l);
}

/* ---- barriers with a number ---- */

static struct Named {
    int threads, arrived;
    unsigned generation;
} named[16];

struct Generation {
    Named *barrier;
    unsigned was;
};

void named_barrier(int id, int threads, bool wait, const char *f, int l)
{
    if (id < 1 || id > 15 || threads % 32)
        die("a named barrier has a number in 1..15 and whole warps", f, l);
    Named *n = &named[id];
    if (n->arrived && n->threads != threads)
        die("a named barrier is used for two numbers of threads", f, l);
    Generation g = {n, n->generation};
    auto passed = [](void *x) { return ((Generation *)x)->barrier->generation != ((Generation *)x)->was; };
    n->threads = threads;
    if (++n->arrived == threads) {
        n->arrived = 0;
        n->generation++;
        changed();
    }
    if (wait)
        wait_until(passed, &g, "barrier_sync", f, l);
}

/* ---- TMA ---- */

struct Load {
    tensor_map map;
    int at[4];
    const void *from; // a plain copy; else NULL, and the map's box
    uint32_t to, bytes;
    uint64_t *barrier;
    const char *f;
    int l;
};
static std::vector<Load> loads;

bool map_make(tensor_map *map, const void *base, const uint64_t *size, const uint64_t *stride,
              const uint32_t *box)
{
    map->base = (const unsigned char *)base;
    if ((uintptr_t)base % 16 || box[0] * 2 != 128)
        return false;
    for (int i = 0; i < 4; i++) {
        map->size[i] = size[i];
        map->stride[i] = i ? stride[i - 1] : 2;
        map->box[i] = box[i];
        if (size[i] < 1 || size[i] > 1ull << 32 || box[i] < 1 || box[i] > 256)
            return false;
        if (i && (map->stride[i] % 16 || map->stride[i] >= 1ull << 40))
            return false;
    }
    return true;
}

static uint32_t rows_of(const tensor_map *m)
{
    return m->box[1] * m->box[2] * m->box[3];
}

/* Row `row` of the box as it lies in memory; 0 outside of the array. */
static void load_row(const Load &load, uint32_t row, unsigned char *out)
{
    const tensor_map &m = load.map;
    int64_t at[4] = {load.at[0], load.at[1] + row % m.box[1], load.at[2] + row / m.box[1] % m.box[2],
                     load.at[3] + row / (m.box[1] * m.box[2])};
    const unsigned char *from = m.base;
    memset(out, 0, 128);
    for (int i = 1; i < 4; i++) {
        if (at[i] < 0 || (uint64_t)at[i] >= m.size[i])
            return;
        from += (uint64_t)at[i] * m.stride[i];
    }
    int64_t first = std::max<int64_t>(at[0], 0), end = std::min<int64_t>(at[0] + 64, (int64_t)m.size[0]);
    if (end > first) // checked by ASan
        memcpy(out + 2 * (first - at[0]), from + 2 * first, (size_t)(end - first) * 2);
}

static void land_box(const Load &load)
{
    unsigned char row[128];
    for (uint32_t r = 0; r < rows_of(&load.map); r++) {
        load_row(load, r, row);
        for (uint32_t piece = 0; piece < 128; piece += 16)
            memcpy(shared_at(swizzled(load.to + r * 128 + piece), 16, "TMA", load.f, load.l), row + piece,
                   16);
    }
}

static void land(const Load &load)
{
    if (load.from)
        memcpy(shared_at(load.to, load.bytes, "TMA", load.f, load.l), load.from,
               load.bytes); // checked by ASan
    else
        land_box(load);
    Mbarrier *m = mbarrier(load.barrier, load.f, load.l);
    m->bytes -= load.bytes;
    advance(m);
}

static void take_off(const Load &load)
{
    if (!mbarrier(load.barrier, load.f, load.l)->fenced)
        die("TMA on an mbarrier without mbarrier_init_fence", load.f, load.l);
    poison(shared_at(load.to, load.bytes, "TMA writes outside of shared memory", load.f, load.l), load.bytes);
    if (at_once())
        land(load);
    else
        loads.push_back(load);
}

void tma_load(void *to, const tensor_map *map, const int *at, uint64_t *b, const char *f, int l)
{
    uint32_t address = shared_address(to, f, l);
    if (address % 1024)
        die("TMA to shared memory that is not aligned to 1024", f, l);
    take_off({*map, {at[0], at[1], at[2], at[3]}, NULL, address, rows_of(map) * 128, b, f, l});
}

void bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *b, const char *f, int l)
{
    uint32_t address = shared_address(to, f, l);
    if (address % 16 || (uintptr_t)from % 16 || bytes % 16 || bytes == 0)
        die("cp.async.bulk of what is not aligned to 16", f, l);
    take_off({{}, {}, from, address, bytes, b, f, l});
}

bool engine_step(unsigned chance)
{
    if (loads.empty() || (chance > 1 && rnd() % chance))
        return false;
    size_t i = rnd() % loads.size();
    Load load = loads[i];
    loads.erase(loads.begin() + (long)i);
    land(load);
    return true;
}

/* ---- wgmma ---- */

struct Product {
    int n, arrived; // threads that have issued it
    bool b_columns, registers, add;
    uint64_t a, b;
    float *d[128];
    const uint32_t *a_registers[128];
    const char *f;
    int l;
};
/* A thread's part of d while products write it: the thread's own registers are NaN meanwhile. */
struct Flight {
    float *d;
    int count;
    unsigned last; // product that writes it
    float value[128];
};
struct Lane {
    unsigned issued;
    std::vector<unsigned> committed; // products issued before each commit that has not been waited for
    bool fenced;
    std::vector<Flight> flights;
};
struct Warpgroup {
    std::vector<Product> products; // those from number `done` on
    unsigned done;
    Lane lane[128];
};
static Warpgroup warpgroups[8];
static bool used; // by this block

static Warpgroup &my_warpgroup()
{
    used = true;
    return warpgroups[cur->warp / 4];
}
static int my_number()
{
    return cur->warp % 4 * 32 + cur->lane;
}

static float element(uint32_t address, const Product &p)
{
    __nv_bfloat16 x;
    memcpy(&x, shared_at(swizzled(address), 2, "wgmma reads outside of shared memory", p.f, p.l), 2);
    return __bfloat162float(x);
}

/* out (16, count): element k of row, or column, i of an operand, by its descriptor ("Matrix Descriptor Format", "Canonical Layouts": with 128-byte
 * swizzle K-major ((8,m),(T,2k)):((8T,SBO),(1,T)) and MN-major ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)), T = 8 bf16 of 16 bytes) */
static void operand(float *out, int count, uint64_t descriptor, bool columns, const Product &p)
{
    uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4,
             stride = (descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1 || descriptor >> 49 & 7)
        die("the emulator has wgmma for 128-byte swizzle without base offset only", p.f, p.l);
    for (uint32_t i = 0; i < (uint32_t)count; i++)
        for (uint32_t k = 0; k < 16; k++) {
            uint32_t at = columns ? i % 64 * 2 + i / 64 * leading + k % 8 * 128 + k / 8 * stride
                                  : i % 8 * 128 + i / 8 * stride + k * 2;
            out[k * (uint32_t)count + i] = element(start + at, p);
        }
}

/* a (64,16) from registers */
static void registers(float (*a)[16], const Product &p)
{
    for (int t = 0; t < 128; t++)
        for (int i = 0; i < 8; i++) {
            __nv_bfloat16 x = {(uint16_t)(p.a_registers[t][i / 2] >> i % 2 * 16)};
            a[t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8][t % 4 * 2 + i % 2 + i / 4 * 8] = __bfloat162float(x);
        }
}

static void multiply(float *d, const Product &p)
{
    static float turned[16 * 64], a[64][16], b[16 * 256];
    operand(b, p.n, p.b, p.b_columns, p);
    if (p.registers)
        registers(a, p);
    else
        operand(turned, 64, p.a, false, p);
    for (int i = 0; i < 64; i++)
        for (int k = 0; k < 16; k++) {
            float x = p.registers ? a[i][k] : turned[k * 64 + i];
            for (int j = 0; j < p.n; j++)
                d[i * p.n + j] = (k ? d[i * p.n + j] : 0) + x * b[k * p.n + j];
        }
}

static void give_back(Lane &lane, Flight *flight, const Product &p)
{
    for (int i = 0; i < flight->count; i++) {
        uint32_t bits;
        memcpy(&bits, &flight->d[i], 4);
        if (bits != ~0u)
            die("registers of a wgmma were written while it was under way", p.f, p.l);
        flight->d[i] = flight->value[i];
    }
    lane.flights.erase(lane.flights.begin() + (flight - lane.flights.data()));
}

static Flight *flight_of(Lane &lane, const float *d)
{
    for (Flight &x : lane.flights)
        if (x.d == d)
            return &x;
    return NULL;
}

/* The oldest product of the warpgroup, which all its threads have issued. */
static void do_product(Warpgroup &w)
{
    static float d[64 * 256];
    Product p = w.products.front();
    w.products.erase(w.products.begin());
    multiply(d, p);
    for (int t = 0; t < 128; t++) {
        Flight *flight = flight_of(w.lane[t], p.d[t]);
        for (int i = 0; i < flight->count; i++) {
            int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
            flight->value[i] = (p.add ? flight->value[i] : 0) + d[row * p.n + column];
        }
        if (flight->last == w.done)
            give_back(w.lane[t], flight, p);
    }
    w.done++;
}

static void take_off(Lane &lane, float *d, int count)
{
    Flight *flight = flight_of(lane, d);
    if (!flight) {
        lane.flights.push_back({d, count, 0, {0}});
        flight = &lane.flights.back();
        memcpy(flight->value, d, (size_t)count * 4);
        poison(d, (size_t)count * 4);
    }
    flight->last = lane.issued;
}

void wgmma_fence()
{
    my_warpgroup().lane[my_number()].fenced = true;
}

void wgmma_commit()
{
    Lane &lane = my_warpgroup().lane[my_number()];
    lane.committed.push_back(lane.issued);
}

void wgmma(int n, float *d, const uint32_t *a_registers, uint64_t a, uint64_t b, bool b_columns, bool add,
           const char *f, int l)
{
    Warpgroup &w = my_warpgroup();
    Lane &lane = w.lane[my_number()];
    unsigned i = lane.issued - w.done;
    if (!lane.fenced)
        die("wgmma without wgmma_fence since the last wgmma_wait", f, l);
    if (i == w.products.size()) {
        Product p = {n, 0, b_columns, a_registers != NULL, add, a, b, {0}, {0}, f, l};
        w.products.push_back(p);
    }
    Product &p = w.products[i];
    if (p.n != n || p.b_columns != b_columns || p.registers != (a_registers != NULL) || p.add != add ||
        p.a != a || p.b != b || p.l != l)
        die("threads of a warpgroup issue different wgmmas", f, l);
    p.d[my_number()] = d;
    p.a_registers[my_number()] = a_registers;
    take_off(lane, d, n / 2);
    lane.issued++;
    if (++p.arrived == 128) {
        changed();
        for (unsigned left = at_once() ? i + 1 : 0; left > 0; left--)
            do_product(w);
    }
}

struct Until {
    Warpgroup *w;
    unsigned products;
};

void wgmma_wait(int groups, const char *f, int l)
{
    Warpgroup &w = my_warpgroup();
    Lane &lane = w.lane[my_number()];
    lane.fenced = false;
    if (lane.committed.size() <= (size_t)groups)
        return;
    size_t over = lane.committed.size() - (size_t)groups;
    Until until = {&w, lane.committed[over - 1]};
    lane.committed.erase(lane.committed.begin(), lane.committed.begin() + (long)over);
    auto issued = [](void *x) {
        const Until *u = (const Until *)x;
        return u->products <= u->w->done || u->w->products[u->products - 1 - u->w->done].arrived == 128;
    };
    wait_until(issued, &until, "wgmma_wait", f, l);
    while (w.done < until.products)
        do_product(w);
}

/* ---- blocks ---- */

void engine_begin()
{
    window = 1024 + 128 * (rnd() % 8);
    unfenced.clear();
    memset(named, 0, sizeof named);
    if (!used)
        return;
    used = false;
    for (Warpgroup &w : warpgroups) {
        w.products.clear();
        w.done = 0;
        for (Lane &lane : w.lane) {
            lane.issued = 0;
            lane.fenced = false;
            lane.committed.clear();
        }
    }
}

void engine_thread_end()
{
    if (used && !my_warpgroup().lane[my_number()].flights.empty())
        die("thread exits with a wgmma under way");
}

void engine_end()
{
    if (!loads.empty())
        die("block ends with a load by TMA under way", loads[0].f, loads[0].l);
    for (int i = 0; i < 16; i++)
        if (named[i].arrived)
            die("block ends with threads that have arrived at a named barrier which nobody passed");
}
} // namespace emu
