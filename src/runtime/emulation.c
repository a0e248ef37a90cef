// Blocks of threads on a processor. This text stands before a unit of kernels, whose head is
// codegen/cuda_head.c, and gives its words their meaning: blocks run one after the other, and the
// threads of a block are fibers, which change at barriers. With JO_CHECKED every access of memory
// is checked.
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
// runtime/emulated_launch.rs says what each field means.
typedef struct {
    i64 blocks, threads, order, has_barriers;
    char *stacks;
    i64 stack;
    jo_region *regions;
    i64 region_count;
    jo_finding *findings;
    i64 most_findings, found;
} jo_emulation;
enum { JO_BOUNDS = 1, JO_UNWRITTEN, JO_RACE, JO_OPERAND, JO_DIVERGES };

#define JO_MOST_THREADS 1024
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
// Registers, where to go on, and a place that keeps the stack aligned as behind a call.
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

// The threads of a block: the stack of each, and the line of the barrier at which it waits.
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

static void jo_first_step(void)
{
    jo_body(jo_arguments);
    jo_wait(JO_DONE);
}

// The thread that comes i-th, in one of several orders; their number is a power of two.
static u32 jo_turn(const jo_emulation *all, i64 i)
{
    return (u32)((i * (2 * all->order + 1) + all->order * 7) % all->threads);
}

// Runs all threads up to their next barrier; whether there is one. All must wait at the same.
static int jo_step(const jo_emulation *all)
{
    i64 waiting = 0;
    i32 line = 0;
    for (i64 i = 0; i < all->threads; i++) {
        jo_thread_now = jo_turn(all, i);
        if (jo_waits[jo_thread_now] == JO_READY) jo_switch(&jo_scheduler, jo_stacks[jo_thread_now]);
    }
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
        jo_waits[i] = JO_READY;
    }
    while (jo_step(all)) {}
}

#if defined JO_CHECKED
#define JO_MOST_SHARED 64
static jo_region jo_shared[JO_MOST_SHARED];
static i64 jo_shared_count;

static void jo_share(const void *memory, i64 bytes, i64 size, jo_cell *cells)
{
    for (i64 k = 0; k < jo_shared_count; k++) if (jo_shared[k].memory == memory) return;
    const jo_region region = {memory, bytes, size, cells, 0};
    if (jo_shared_count < JO_MOST_SHARED) jo_shared[jo_shared_count++] = region;
}

// When a block begins nothing has written its shared memory.
static void jo_forget(void)
{
    const jo_cell none = {0};
    for (i64 k = 0; k < jo_shared_count; k++)
        for (i64 i = 0; i < jo_shared[k].bytes / jo_shared[k].size; i++) jo_shared[k].cells[i] = none;
}

static const jo_region *jo_region_of(const void *memory)
{
    const jo_emulation *const all = jo_now_emulated;
    for (i64 k = 0; k < jo_shared_count; k++) if (jo_shared[k].memory == memory) return &jo_shared[k];
    for (i64 k = 0; k < all->region_count; k++) if (all->regions[k].memory == memory) return &all->regions[k];
    return 0;
}

// Whether an access by another thread is ordered before this one: by a barrier of the same block.
static int jo_is_ordered(u32 thread, u32 block, u32 time)
{
    return !thread || (block == jo_block_now && (thread == jo_thread_now + 1 || time < jo_time));
}

// The element that an access means; a place aside where it must not be touched.
static void *jo_touch(const void *memory, const void *at, i64 size, int writes, i32 line)
{
    static i64 aside[2];
    const jo_region *const region = jo_region_of(memory);
    const i64 offset = region ? (const char *)at - region->memory : -1;
    if (offset < 0 || offset + size > region->bytes) return jo_report(JO_BOUNDS, line, 0, 0), (void *)aside;
    if (!region->cells) return writes ? jo_report(JO_OPERAND, line, 0, 0), (void *)aside : (void *)at;
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
    return (void *)at;
}

#define JO_GET(memory, at) (*(__typeof__(&(memory)[0]))jo_touch((memory), &(memory)[at], sizeof((memory)[0]), 0, __LINE__))
#define JO_PUT(memory, at, value) do { \
    const __typeof__(+(memory)[0]) jo_value = (value); \
    *(__typeof__(&(memory)[0]))jo_touch((memory), &(memory)[at], sizeof((memory)[0]), 1, __LINE__) = jo_value; \
} while (0)
#define JO_SHARED(type, name, count) \
    static type name[count]; \
    static jo_cell cells_##name[count]; \
    jo_share(name, sizeof(name), sizeof(type), cells_##name)
#else
static void jo_forget(void) {}
#define JO_GET(memory, at) (memory)[at]
#define JO_PUT(memory, at, value) (memory)[at] = (value)
#define JO_SHARED(type, name, count) static type name[count]
#endif

#define JO_THREAD jo_thread_now
#define JO_BLOCK jo_block_now
#define JO_BLOCKS ((u32)jo_now_emulated->blocks)
#define JO_BARRIER() jo_wait(__LINE__)

// Runs the blocks of a launch.
static __attribute__((unused)) void jo_run(jo_emulation *all, const void *arguments, void (*body)(const void *))
{
    jo_now_emulated = all, jo_arguments = arguments, jo_body = body, jo_time = 1;
    for (i64 k = 0; k < all->blocks; k++, jo_time++) {
        jo_block_now = (u32)(all->order % 2 ? all->blocks - 1 - k : k);
        jo_forget();
        if (all->has_barriers) {
            jo_block_of_fibers(all);
            continue;
        }
        for (i64 i = 0; i < all->threads; i++) {
            jo_thread_now = jo_turn(all, i);
            body(arguments);
        }
    }
}
