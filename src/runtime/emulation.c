// Blocks of threads on a processor. This text stands before a unit of kernels, whose head is
// codegen/cuda_head.c, and gives its words their meaning: blocks run one after the other, and the
// threads of a block are fibers, which change at barriers, and where lanes of a warp give values to
// each other. With JO_CHECKED every access of memory
// is checked, and counted as a device would make it.
#define JO_EMULATED 1
typedef int i32;
typedef unsigned int u32;
typedef long long i64;

// What is known of an element: who wrote it last and who read it since, where and when. Threads
// count from 1, times are barriers passed, counted over all blocks.
typedef struct {
    u32 writer, written_at, writer_block, writer_line;
    u32 reader, read_at, reader_block, reader_line;
} jo_cell;
// The memory that a name in a kernel means. Operands have no cells: nothing writes them. Partial
// sums are set before a launch.
typedef struct {
    const char *memory;
    i64 bytes, size;
    jo_cell *cells;
    i64 is_set;
} jo_region;
typedef struct {
    i64 kind, line, other_line, block, thread, other_thread;
} jo_finding;
// The accesses of one place in the text: how often a warp made one together, the transactions that
// took, and how few would have done. Kinds: 1 for shared memory, plus 2 for stores.
typedef struct {
    i64 line, kind, requests, transactions, fewest;
} jo_place;
// runtime/device_launch.rs says what each field means.
typedef struct {
    i64 blocks, threads, seed, has_barriers;
    char *stacks;
    i64 stack;
    jo_region *regions;
    i64 region_count;
    jo_finding *findings;
    i64 most_findings, found;
    jo_place *places;
    i64 most_places, place_count;
} jo_emulation;
enum { JO_BOUNDS = 1, JO_UNWRITTEN, JO_RACE, JO_OPERAND, JO_DIVERGES, JO_MISALIGNED, JO_ABSENT };

#define JO_MOST_THREADS 1024
// The threads of a warp.
#define JO_LANES 32
static jo_emulation *jo_now_emulated;
static u32 jo_block_now, jo_thread_now, jo_time;

static __attribute__((unused)) void jo_report(i64 kind, i64 line, i64 other_line, i64 other_thread)
{
    jo_emulation *const all = jo_now_emulated;
    for (i64 k = 0; k < all->found; k++) if (all->findings[k].kind == kind && all->findings[k].line == line) return;
    if (all->found == all->most_findings) return;
    const jo_finding found = {kind, line, other_line, jo_block_now, jo_thread_now, other_thread};
    all->findings[all->found++] = found;
}

// Changes from one stack to another: what functions keep in registers stays on the one, and is
// taken from the other.
void jo_switch(void **from, void *to) __asm__("jo_switch");
#if defined __x86_64__
__asm__(".text\njo_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
// Registers, where to go on, and a place that keeps the stack aligned as after a call.
enum { JO_KEPT = 8, JO_GOES_ON = 6 };
#elif defined __aarch64__
__asm__(".text\njo_switch:\nsub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n");
enum { JO_KEPT = 20, JO_GOES_ON = 11 };
#else
#error blocks of threads are emulated on x86-64 and aarch64
#endif

// The threads of a block: the stack of each, and the line of the barrier at which it waits. That of
// an exchange of lanes is -1 minus the line.
enum { JO_READY = 0, JO_DONE = -1 };
static void *jo_scheduler, *jo_stacks[JO_MOST_THREADS];
static i32 jo_waits[JO_MOST_THREADS];
static void (*jo_body)(const void *);
static const void *jo_arguments;

static void jo_wait(i32 line)
{
    jo_waits[jo_thread_now] = line;
    jo_switch(&jo_stacks[jo_thread_now], jo_scheduler);
}

// What lanes give to each other. A lane may give the next value before all others have read this
// one, so that there are two places for each; for a third value it has to meet the others first.
static i64 jo_given[2][JO_MOST_THREADS];
static u32 jo_exchanges[JO_MOST_THREADS];

// Gives a value to the other lanes of a warp, and takes that of one of them, or its own.
static __attribute__((unused)) void jo_exchange(void *value, i64 size, u32 lane, i32 line)
{
    const u32 me = jo_thread_now, place = jo_exchanges[me]++ % 2;
    __builtin_memcpy(&jo_given[place][me], value, (unsigned long)size);
    jo_wait(-1 - line);
    const u32 from = lane < JO_LANES ? me / JO_LANES * JO_LANES + lane : me;
    __builtin_memcpy(value, &jo_given[place][from], (unsigned long)size);
}

static void jo_first_step(void)
{
    jo_body(jo_arguments);
    jo_wait(JO_DONE);
}

// Numbers that a seed determines.
static u32 jo_random_state;

static u32 jo_random(u32 below)
{
    jo_random_state ^= jo_random_state << 13;
    jo_random_state ^= jo_random_state >> 17;
    jo_random_state ^= jo_random_state << 5;
    return jo_random_state % below;
}

// An order of so many threads or blocks: as they are counted, or one that the seed determines.
static void jo_set_order(u32 *order, i64 count)
{
    for (i64 i = 0; i < count; i++) order[i] = (u32)i;
    for (i64 i = count - 1; i > 0 && jo_now_emulated->seed; i--) {
        const u32 with = jo_random((u32)i + 1), one = order[i];
        order[i] = order[with], order[with] = one;
    }
}

static u32 jo_turns[JO_MOST_THREADS];

// Lets each thread run that does not wait; whether one did.
static int jo_round(const jo_emulation *all)
{
    int ran = 0;
    jo_set_order(jo_turns, all->threads);
    for (i64 i = 0; i < all->threads; i++) {
        jo_thread_now = jo_turns[i];
        if (jo_waits[jo_thread_now] != JO_READY) continue;
        jo_switch(&jo_scheduler, jo_stacks[jo_thread_now]);
        ran = 1;
    }
    return ran;
}

// Resumes lanes that have met at a shuffle; whether there were any. All of a warp must be there.
static int jo_meet(const jo_emulation *all)
{
    int met = 0;
    for (i64 first = 0; first < all->threads; first += JO_LANES) {
        const i64 end = first + JO_LANES < all->threads ? first + JO_LANES : all->threads;
        i64 one = first;
        while (one < end && jo_waits[one] >= JO_DONE) one++;
        if (one == end) continue;
        const i32 place = jo_waits[one];
        jo_thread_now = (u32)one, met = 1;
        for (i64 i = first; i < end; i++) {
            const i32 other = jo_waits[i];
            if (other == place) jo_waits[i] = JO_READY;
            else jo_report(JO_ABSENT, -1 - place, other < JO_DONE ? -1 - other : other, i);
        }
    }
    return met;
}

// Runs all threads up to their next barrier; whether there is one. All must wait at the same.
static int jo_step(const jo_emulation *all)
{
    i64 waiting = 0;
    i32 line = 0;
    do while (jo_round(all)) {} while (jo_meet(all));
    for (i64 i = 0; i < all->threads; i++) if (jo_waits[i] > 0) waiting++, line = jo_waits[i];
    for (i64 i = 0; i < all->threads && waiting; i++) {
        jo_thread_now = (u32)i;
        if (jo_waits[i] != line) jo_report(JO_DIVERGES, line, jo_waits[i], i);
    }
    for (i64 i = 0; i < all->threads; i++) if (jo_waits[i] > 0) jo_waits[i] = JO_READY;
    jo_time++;
    return waiting > 0;
}

static void jo_block_of_fibers(const jo_emulation *all)
{
    for (i64 i = 0; i < all->threads; i++) {
        void **const top = (void **)(all->stacks + (i + 1) * all->stack) - JO_KEPT;
        for (int k = 0; k < JO_KEPT; k++) top[k] = 0;
        top[JO_GOES_ON] = (void *)jo_first_step;
        jo_stacks[i] = top;
        jo_waits[i] = JO_READY, jo_exchanges[i] = 0;
    }
    while (jo_step(all)) {}
}

#if defined JO_CHECKED
// A shared array of the kernel that runs, and the one that a thread met before it.
typedef struct jo_shared {
    jo_region region;
    struct jo_shared *next;
    int is_known;
} jo_shared;
static jo_shared *jo_shared_last;

static void jo_forget_cells(const jo_region *region)
{
    const jo_cell none = {0};
    for (i64 i = 0; i < region->bytes / region->size; i++) region->cells[i] = none;
}

// When a thread of a launch is the first that meets an array.
static void jo_share(jo_shared *array)
{
    if (array->is_known) return;
    jo_forget_cells(&array->region);
    array->is_known = 1, array->next = jo_shared_last;
    jo_shared_last = array;
}

// When a block begins nothing has written its shared memory.
static void jo_forget(void)
{
    for (const jo_shared *array = jo_shared_last; array; array = array->next) jo_forget_cells(&array->region);
}

// The next launch may be of another kernel.
static void jo_end_shared(void)
{
    for (; jo_shared_last; jo_shared_last = jo_shared_last->next) jo_shared_last->is_known = 0;
}

// A place in the text whose accesses are counted in this block. Accesses that the threads of a warp
// make for the n-th time since a barrier are one request; the first requests of each warp are
// counted. Addresses count from the start of their memory, as if a sector or the first bank began
// there.
enum { JO_WARPS = JO_MOST_THREADS / JO_LANES, JO_REQUESTS = 16, JO_WATCHED = 256, JO_COUNTERS = 1 << 14 };
typedef struct {
    u32 time, turn, lanes;
    i64 at[JO_LANES];
} jo_request;
typedef struct {
    i64 line, kind, size;
    u32 time[JO_MOST_THREADS], turn[JO_MOST_THREADS], made[JO_WARPS];
    jo_request requests[JO_WARPS][JO_REQUESTS];
} jo_watched;
static jo_watched jo_watch[JO_WATCHED];
static i64 jo_watch_count;
static unsigned short jo_watch_of[JO_COUNTERS];

static jo_watched *jo_watched_at(i32 counter, i64 line, i64 kind, i64 size)
{
    if (counter >= JO_COUNTERS || (!jo_watch_of[counter] && jo_watch_count == JO_WATCHED)) return 0;
    if (!jo_watch_of[counter]) {
        jo_watched *const begun = &jo_watch[jo_watch_count++];
        begun->line = line, begun->kind = kind, begun->size = size;
        jo_watch_of[counter] = (unsigned short)jo_watch_count;
    }
    return &jo_watch[jo_watch_of[counter] - 1];
}

static void jo_count(i32 counter, i64 line, i64 kind, i64 size, i64 offset)
{
    jo_watched *const watched = jo_watched_at(counter, line, kind, size);
    if (!watched) return;
    const u32 me = jo_thread_now, warp = me / JO_LANES;
    if (watched->time[me] != jo_time) watched->time[me] = jo_time, watched->turn[me] = 0;
    const u32 turn = watched->turn[me]++;
    u32 k = 0;
    while (k < watched->made[warp] && (watched->requests[warp][k].time != jo_time || watched->requests[warp][k].turn != turn)) k++;
    if (k == JO_REQUESTS) return;
    jo_request *const request = &watched->requests[warp][k];
    if (k == watched->made[warp]) request->time = jo_time, request->turn = turn, request->lanes = 0, watched->made[warp]++;
    request->lanes |= 1u << me % JO_LANES;
    request->at[me % JO_LANES] = offset;
}

// How many units of so many bytes some lanes touch, and how many bytes in all, each counted once.
static i64 jo_units(const i64 *at, u32 lanes, i64 size, i64 unit, i64 *bytes)
{
    i64 units = 0;
    *bytes = 0;
    for (int i = 0; i < JO_LANES; i++) {
        int unit_is_new = lanes >> i & 1, is_new = unit_is_new;
        for (int k = 0; k < i && is_new; k++) {
            if (!(lanes >> k & 1)) continue;
            if (at[k] == at[i]) is_new = unit_is_new = 0;
            if (at[k] / unit == at[i] / unit) unit_is_new = 0;
        }
        units += unit_is_new, *bytes += is_new * size;
    }
    return units;
}

// The wavefronts in which banks of 4 bytes serve some lanes: in each, a bank gives one word, to any
// number of lanes.
static i64 jo_ways(const i64 *at, u32 lanes)
{
    i64 most = 0, words[JO_LANES] = {0}, seen[JO_LANES][JO_LANES];
    for (int i = 0; i < JO_LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        const i64 word = at[i] / 4, bank = word % JO_LANES;
        i64 k = 0;
        while (k < words[bank] && seen[bank][k] != word) k++;
        if (k == words[bank]) seen[bank][words[bank]++] = word;
        if (words[bank] > most) most = words[bank];
    }
    return most;
}

static void jo_count_request(jo_place *place, const i64 *at, u32 lanes, i64 size)
{
    i64 bytes;
    place->requests++;
    if (place->kind & 1) {
        // All banks give 128 bytes per wavefront: half of a warp has 8 bytes each, a fourth has 16.
        const int together = size > 4 ? (int)(128 / size) : JO_LANES;
        for (int first = 0; first < JO_LANES; first += together) {
            const u32 now = together == JO_LANES ? lanes : lanes & (((1u << together) - 1) << first);
            place->transactions += jo_ways(at, now), place->fewest += now != 0;
        }
        return;
    }
    place->transactions += jo_units(at, lanes, size, 32, &bytes);
    place->fewest += (bytes + 31) / 32;
}

// At the end of a block: adds what its warps requested to what others did.
static void jo_count_block(void)
{
    jo_emulation *const all = jo_now_emulated;
    for (i64 k = 0; k < jo_watch_count; k++) {
        jo_watched *const watched = &jo_watch[k];
        if (k >= all->place_count && k < all->most_places) {
            const jo_place begun = {watched->line, watched->kind, 0, 0, 0};
            all->places[all->place_count++] = begun;
        }
        for (i64 warp = 0; warp < (all->threads + JO_LANES - 1) / JO_LANES; warp++) {
            for (u32 n = 0; n < watched->made[warp] && k < all->place_count; n++) {
                const jo_request *const request = &watched->requests[warp][n];
                jo_count_request(&all->places[k], request->at, request->lanes, watched->size);
            }
            watched->made[warp] = 0;
        }
        for (i64 i = 0; i < all->threads; i++) watched->time[i] = 0;
    }
}

// At the end of a launch: the places of the next one are others.
static void jo_end_count(void)
{
    for (i64 k = 0; k < JO_COUNTERS; k++) jo_watch_of[k] = 0;
    jo_watch_count = 0;
}

static const jo_region *jo_region_of(const void *memory)
{
    const jo_emulation *const all = jo_now_emulated;
    for (const jo_shared *array = jo_shared_last; array; array = array->next)
        if (array->region.memory == memory) return &array->region;
    // Operands may be views that begin at one address: the memory is that of the longest one.
    const jo_region *found = 0;
    for (i64 k = 0; k < all->region_count; k++) {
        const jo_region *const region = &all->regions[k];
        if (region->memory == memory && (!found || region->bytes > found->bytes)) found = region;
    }
    return found;
}

// Whether an access by another thread is ordered before this one: by a barrier of the same block.
static int jo_is_ordered(u32 thread, u32 block, u32 time)
{
    return !thread || (block == jo_block_now && (thread == jo_thread_now + 1 || time < jo_time));
}

// In an order that a seed determines, threads stop before some of their accesses for others.
static void jo_give_way(void)
{
    if (jo_now_emulated->seed && jo_now_emulated->has_barriers && jo_random(16) == 0) jo_wait(JO_READY);
}

// Where an access is in its region; -1 if it is outside of it.
static i64 jo_offset(const jo_region *region, const void *at, i64 size, i32 line)
{
    const i64 offset = region ? (const char *)at - region->memory : -1;
    if (offset >= 0 && offset + size <= region->bytes) return offset;
    jo_report(JO_BOUNDS, line, 0, 0);
    return -1;
}

// An element of a region; a dummy where it must not be touched.
static void *jo_touch_element(const jo_region *region, i64 offset, int writes, i32 line)
{
    static i64 dummy[2];
    void *const at = (void *)(region->memory + offset);
    if (!region->cells) return writes ? jo_report(JO_OPERAND, line, 0, 0), (void *)dummy : at;
    jo_cell *const cell = &region->cells[offset / region->size];
    if (!jo_is_ordered(cell->writer, cell->writer_block, cell->written_at))
        jo_report(JO_RACE, line, cell->writer_line, cell->writer - 1);
    if (writes && !jo_is_ordered(cell->reader, cell->reader_block, cell->read_at))
        jo_report(JO_RACE, line, cell->reader_line, cell->reader - 1);
    if (!writes && !cell->writer && !region->is_set) jo_report(JO_UNWRITTEN, line, 0, 0);
    const u32 me = jo_thread_now + 1;
    if (writes) {
        const jo_cell now = {me, jo_time, jo_block_now, (u32)line, 0, 0, 0, 0};
        *cell = now;
    } else if (jo_is_ordered(cell->reader, cell->reader_block, cell->read_at)) {
        cell->reader = me, cell->read_at = jo_time, cell->reader_block = jo_block_now, cell->reader_line = (u32)line;
    } else {
        // Several have read it since the last barrier: whoever writes it now races.
        cell->reader = JO_MOST_THREADS + 1;
    }
    return at;
}

static int jo_is_shared(const jo_region *region)
{
    const jo_emulation *const all = jo_now_emulated;
    return region < all->regions || region >= all->regions + all->region_count;
}

// The element that an access means; a dummy where it must not be touched.
static void *jo_touch(const void *memory, const void *at, i64 size, int writes, i32 line, i32 counter)
{
    static i64 dummy[2];
    jo_give_way();
    const jo_region *const region = jo_region_of(memory);
    if ((i64)at % size) return jo_report(JO_MISALIGNED, line, 0, 0), (void *)dummy;
    const i64 offset = jo_offset(region, at, size, line);
    if (offset < 0) return (void *)dummy;
    jo_count(counter, line, jo_is_shared(region) + 2 * writes, size, offset);
    return jo_touch_element(region, offset, writes, line);
}

// Copies the elements that one access means, in so many bytes. Memory of a device is aligned where
// that of an operand begins here, of which a launch knows how far that is from there.
static __attribute__((unused)) void jo_touch_wide(
    const void *memory, const void *at, i64 size, i64 bytes, int writes, i32 line, i32 counter, void *copy)
{
    jo_give_way();
    const jo_region *const region = jo_region_of(memory);
    const i64 offset = jo_offset(region, at, bytes, line);
    if (offset < 0) return;
    if (offset % (bytes < 16 ? bytes : 16)) jo_report(JO_MISALIGNED, line, 0, 0);
    jo_count(counter, line, jo_is_shared(region) + 2 * writes, bytes, offset);
    for (i64 k = 0; k < bytes; k += size) {
        char *const own = (char *)copy + k, *const there = jo_touch_element(region, offset + k, writes, line);
        __builtin_memcpy(writes ? there : own, writes ? own : there, (unsigned long)size);
    }
}

#define JO_GET(memory, at) (*(__typeof__(&(memory)[0]))jo_touch((memory), &(memory)[at], sizeof((memory)[0]), 0, __LINE__, __COUNTER__))
#define JO_PUT(memory, at, value) do { \
    const __typeof__(+(memory)[0]) jo_value = (value); \
    *(__typeof__(&(memory)[0]))jo_touch((memory), &(memory)[at], sizeof((memory)[0]), 1, __LINE__, __COUNTER__) = jo_value; \
} while (0)
#define JO_FETCH(wide, memory, at) __extension__({ \
    wide jo_copy = {0}; \
    jo_touch_wide((memory), &(memory)[at], sizeof((memory)[0]), sizeof(wide), 0, __LINE__, __COUNTER__, &jo_copy); \
    jo_copy; \
})
#define JO_DELIVER(wide, memory, at, value) do { \
    wide jo_copy = (value); \
    jo_touch_wide((memory), &(memory)[at], sizeof((memory)[0]), sizeof(wide), 1, __LINE__, __COUNTER__, &jo_copy); \
} while (0)
#define JO_SHARED(type, name, count) \
    static type name[count]; \
    static jo_cell cells_##name[count]; \
    static jo_shared array_##name = {{(const char *)name, sizeof(name), sizeof(type), cells_##name, 0}, 0, 0}; \
    jo_share(&array_##name)
#else
static void jo_forget(void) {}
static void jo_end_shared(void) {}
static void jo_count_block(void) {}
static void jo_end_count(void) {}
#define JO_GET(memory, at) (memory)[at]
#define JO_PUT(memory, at, value) (memory)[at] = (value)
#define JO_FETCH(wide, memory, at) (*(const wide *)&(memory)[at])
#define JO_DELIVER(wide, memory, at, value) (*(wide *)&(memory)[at] = (value))
#define JO_SHARED(type, name, count) static type name[count]
#endif
// Memory of a processor need not be aligned as that of a device is.
#define JO_WIDE(type, n) \
    typedef struct __attribute__((packed, may_alias)) { type of[n]; } jo_##type##_##n
#define JO_PACKED(type, n) \
    typedef struct __attribute__((packed, may_alias)) { type of[n]; } jo_packed_##type##_##n
#define JO_PART(type, packed, at) ((packed).of[at])
#define JO_UNROLL
#define JO_ROLLED

#define JO_THREAD jo_thread_now
#define JO_BLOCK jo_block_now
#define JO_BLOCKS ((u32)jo_now_emulated->blocks)
#define JO_BARRIER() jo_wait(__LINE__)
#define JO_LANE (jo_thread_now % JO_LANES)
#define JO_WARP (jo_thread_now / JO_LANES)
#define JO_LANE_BELOW(type, own, by) JO_OF_LANE(type, own, JO_LANE + (by))
#define JO_FIRST_LANE(type, own) JO_OF_LANE(type, own, 0)
#define JO_LANE_BEFORE(type, own, by) JO_OF_LANE(type, own, JO_LANE - (by))
#define JO_OF_LANE(type, own, lane) __extension__({ \
    type jo_value = (own); \
    jo_exchange(&jo_value, sizeof(type), lane, __LINE__); \
    jo_value; \
})

#define JO_MOST_BLOCKS 1024
static u32 jo_blocks_in_order[JO_MOST_BLOCKS];

// Runs the threads of a block, which is the first thing that happens in it.
static void jo_run_block(const jo_emulation *all)
{
    jo_forget();
    if (all->has_barriers) {
        jo_block_of_fibers(all);
    } else {
        jo_set_order(jo_turns, all->threads);
        for (i64 i = 0; i < all->threads; i++) {
            jo_thread_now = jo_turns[i];
            jo_body(jo_arguments);
        }
    }
    jo_count_block();
}

// Runs the blocks of a launch: at most 1024.
static __attribute__((unused)) void jo_run(jo_emulation *all, const void *arguments, void (*body)(const void *))
{
    jo_now_emulated = all, jo_arguments = arguments, jo_body = body, jo_time = 1;
    jo_random_state = (u32)all->seed * 2654435769u | 1;
    jo_set_order(jo_blocks_in_order, all->blocks);
    for (i64 k = 0; k < all->blocks; k++, jo_time++) {
        jo_block_now = jo_blocks_in_order[k];
        jo_run_block(all);
    }
    jo_end_count();
    jo_end_shared();
}

// The entry of a kernel, which stands before it.
#define JO_ENTRY(kernel) \
    static void kernel##_body(const void *arguments) { kernel(arguments); } \
    void kernel##_emulated(jo_emulation *all, const jo_launch *arguments) { jo_run(all, arguments, kernel##_body); }
