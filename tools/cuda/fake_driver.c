// A driver of GPUs, an NVRTC and a cuBLAS for machines without them: tests of the runtime run the
// real calls through them. Kernels are compiled by the system's C compiler, after
// src/runtime/emulation.c, which gives blocks of threads a meaning on a processor.
//
//   cc -shared -fPIC -DEMULATION='"…/src/runtime/emulation.c"' -Wl,-soname,libcuda.so …
//   cc -DNVRTC -shared -fPIC -DEMULATION='"…/src/runtime/emulation.c"' -Wl,-soname,libnvrtc.so …
//   cc -DCUBLAS -shared -fPIC -Wl,-soname,libcublas.so …
//
// It is stricter than a driver. Streams do their work late: when the program waits, and before
// that at random times (FAKE_CUDA_SEED). Device memory stands between pages that cannot be touched,
// and cannot be touched itself unless work is done. At the end it says what was called and what was
// left (FAKE_CUDA_REPORT names a file).
//
//   FAKE_CUDA_FAIL=NAME:N[:CODE]   the N-th call of a function fails
//   FAKE_CUDA_FAULT=N              the N-th kernel that runs faults; all later calls fail
// Its clock is that of a machine: a byte that is copied takes a nanosecond, and so does a thread.
//
//   FAKE_CUDA_DEVICES, FAKE_CUDA_VERSION, FAKE_CUDA_MEMORY   1, 13000, 1 GiB
//   FAKE_CUDA_CC                   the C compiler
//   FAKE_CUDA_PTX                  the file that every text is compiled to where PTX is wanted
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined CUBLAS
// What `cuModuleLoadData` is given: a library of this machine, for an architecture.
typedef struct {
    char magic[8];
    uint64_t bytes;
    int64_t architecture;
} image_head;
static const char MAGIC[8] = "fakecub";
#endif

// Calls are counted by name; one of them may be told to fail.
#define MOST_NAMES 64
static struct { const char *name; long calls; } called[MOST_NAMES];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static int entered(const char *name, int code)
{
    pthread_mutex_lock(&counting);
    int k = 0;
    while (called[k].name && strcmp(called[k].name, name)) k++;
    called[k].name = name;
    const long n = ++called[k].calls;
    pthread_mutex_unlock(&counting);
    const char *const wanted = getenv("FAKE_CUDA_FAIL"), *const colon = wanted ? strchr(wanted, ':') : 0;
    if (!colon || (size_t)(colon - wanted) != strlen(name) || strncmp(wanted, name, strlen(name))) return 0;
    char *end;
    if (strtol(colon + 1, &end, 10) != n) return 0;
    return *end == ':' ? (int)strtol(end + 1, 0, 10) : code;
}

static FILE *report(void)
{
    const char *const path = getenv("FAKE_CUDA_REPORT");
    FILE *const file = path ? fopen(path, "a") : 0;
    for (int k = 0; file && called[k].name; k++) fprintf(file, "called %s %ld\n", called[k].name, called[k].calls);
    return file;
}

#if defined NVRTC
enum { OK, OUT_OF_MEMORY, PROGRAM = 2, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };
#define ENTER() do { const int failed = entered(__func__, INTERNAL); if (failed) return failed; } while (0)

typedef struct { char *text, *log, *image; size_t bytes; } program;
static long programs;

__attribute__((destructor)) static void leaves(void)
{
    FILE *const file = report();
    if (!file) return;
    fprintf(file, "left programs %ld\n", programs);
    fclose(file);
}

int nvrtcVersion(int *major, int *minor)
{
    ENTER();
    return *major = 13, *minor = 0, OK;
}

int nvrtcCreateProgram(program **made, const char *text, const char *name, int n, const void *a, const void *b)
{
    ENTER();
    (void)name, (void)n, (void)a, (void)b;
    *made = calloc(1, sizeof **made);
    (*made)->text = strdup(text), (*made)->log = strdup("");
    programs++;
    return OK;
}

int nvrtcDestroyProgram(program **all)
{
    const int failed = entered(__func__, INTERNAL);
    free((*all)->text), free((*all)->log), free((*all)->image), free(*all);
    *all = 0, programs--;
    return failed;
}

static char *contents(const char *path, size_t *bytes)
{
    FILE *const file = fopen(path, "rb");
    if (!file) return 0;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *const all = calloc(1, *bytes + 1);
    const size_t got = fread(all, 1, *bytes, file);
    fclose(file);
    return got == *bytes ? all : (free(all), (char *)0);
}

// Whether a text has a word before its end.
static int has(const char *text, const char *end, const char *word)
{
    const char *const at = strstr(text, word);
    return at && (!end || at < end);
}

// After the text, an entry for each kernel; its text shows whether threads wait for each other.
static void write_entries(FILE *unit, const char *text)
{
    fprintf(unit, "\nconst i64 fake_launch_bytes = sizeof(jo_launch);\n");
    for (const char *at = strstr(text, "\nJO_KERNEL("); at; at = strstr(at + 1, "\nJO_KERNEL(")) {
        char name[256] = "";
        sscanf(at, "\nJO_KERNEL(%255[^,]", name);
        const char *const next = strstr(at + 1, "\nJO_KERNEL(");
        const int waits = has(at, next, "JO_BARRIER()") || has(at, next, "JO_FIRST_LANE(");
        fprintf(unit, "static void %s_body(const void *a) { %s(a); }\n", name, name);
        fprintf(unit, "void %s_fake(i64 blocks, i64 threads, i64 order, char *stacks, i64 stack, const void *a)\n{\n", name);
        fprintf(unit, "    jo_emulation all = {blocks, threads, order, %d, stacks, stack};\n", waits);
        fprintf(unit, "    jo_run(&all, a, %s_body);\n}\n", name);
    }
}

int nvrtcCompileProgram(program *all, int count, const char *const *options)
{
    ENTER();
    int architecture = 0, is_exact = 0, is_ptx = 0;
    for (int k = 0; k < count; k++) {
        sscanf(options[k], "--gpu-architecture=sm_%d", &architecture);
        is_ptx |= sscanf(options[k], "--gpu-architecture=compute_%d", &architecture);
        is_exact |= !strcmp(options[k], "--fmad=false");
    }
    if (!architecture || !is_exact) return INVALID_OPTION;
    if (is_ptx) {
        const char *const ptx = getenv("FAKE_CUDA_PTX");
        all->image = ptx ? contents(ptx, &all->bytes) : 0;
        return all->image ? OK : COMPILATION;
    }
    char folder[] = P_tmpdir "/fake-nvrtc-XXXXXX", path[64], command[512];
    if (!mkdtemp(folder)) return INTERNAL;
    snprintf(path, sizeof path, "%s/unit.c", folder);
    FILE *const unit = fopen(path, "w");
    if (!unit) return INTERNAL;
    fprintf(unit, "#include \"%s\"\n#line 1 \"kernels.cu\"\n%s", EMULATION, all->text);
    write_entries(unit, all->text);
    fclose(unit);
    const char *const cc = getenv("FAKE_CUDA_CC");
    snprintf(command, sizeof command,
             "cd %s && %s -std=gnu11 -O1 -march=native -ffp-contract=off -fno-math-errno -fwrapv -fPIC -shared "
             "-o unit.so unit.c >log 2>&1", folder, cc ? cc : "cc");
    const int status = system(command);
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/unit.so", folder);
    char *const library = contents(path, &bytes);
    size_t said = 0;
    snprintf(path, sizeof path, "%s/log", folder);
    char *const log = contents(path, &said);
    if (log) free(all->log), all->log = log;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) return INTERNAL;
    // A shell says 128 and more of a program that was killed.
    if (!WIFEXITED(status) || WEXITSTATUS(status) >= 128) return free(library), INTERNAL;
    if (status || !library) return free(library), COMPILATION;
    image_head head = {"", bytes, architecture};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    all->bytes = sizeof head + bytes, all->image = malloc(all->bytes);
    memcpy(all->image, &head, sizeof head), memcpy(all->image + sizeof head, library, bytes);
    return free(library), OK;
}

int nvrtcGetProgramLogSize(program *all, size_t *bytes) { ENTER(); return *bytes = strlen(all->log) + 1, OK; }
int nvrtcGetProgramLog(program *all, char *to) { ENTER(); return strcpy(to, all->log), OK; }
int nvrtcGetCUBINSize(program *all, size_t *bytes) { ENTER(); return *bytes = all->bytes, OK; }
int nvrtcGetCUBIN(program *all, char *to) { ENTER(); return memcpy(to, all->image, all->bytes), OK; }
int nvrtcGetPTXSize(program *all, size_t *bytes) { ENTER(); return *bytes = all->bytes + 1, OK; }
int nvrtcGetPTX(program *all, char *to) { ENTER(); return memcpy(to, all->image, all->bytes + 1), OK; }

#elif defined CUBLAS
enum { OK, NOT_INITIALIZED, INVALID_VALUE = 7, EXECUTION_FAILED = 13, INTERNAL, NOT_SUPPORTED };
enum { FLOAT, DOUBLE, HALF, BFLOAT16 = 14 };
#define ENTER() do { const int failed = entered(__func__, INTERNAL); if (failed) return failed; } while (0)

typedef struct { void *stream; } blas;
static long handles;

__attribute__((destructor)) static void leaves(void)
{
    FILE *const file = report();
    if (!file) return;
    fprintf(file, "left handles %ld\n", handles);
    fclose(file);
}

// A product, which the driver runs when its stream is there.
typedef struct {
    int left_transposed, right_transposed, type;
    int64_t m, n, k, lda, ldb, ldc, step_a, step_b, step_c, batches;
    double alpha, beta;
    const char *a, *b;
    char *c;
} product;

static size_t bytes_of(int type) { return type == DOUBLE ? 8 : type == FLOAT ? 4 : 2; }

static float from_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float scaled = exponent == 31 ? (fraction ? __builtin_nanf("") : __builtin_inff())
        : __builtin_ldexpf(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
    return h >> 15 ? -scaled : scaled;
}

// The nearest half, to even, found among both neighbours of what is cut off.
static uint16_t to_half(double x)
{
    const uint16_t sign = (uint16_t)(__builtin_signbit(x) ? 0x8000 : 0);
    const double size = __builtin_fabs(x);
    if (__builtin_isnan(x)) return 0x7e00;
    if (size >= 65520.0) return sign | 0x7c00;
    uint16_t low = 0, high = 0x7c00;
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        if (from_half(middle) <= size) low = middle; else high = middle;
    }
    const double above = high == 0x7c00 ? 65536.0 : from_half(high), twice = 2 * size, sum = from_half(low) + above;
    return sign | (twice > sum || (twice == sum && low & 1) ? high : low);
}

static double element(const char *memory, int type, int64_t at)
{
    if (type == DOUBLE) return ((const double *)memory)[at];
    if (type == FLOAT) return ((const float *)memory)[at];
    const uint16_t bits = ((const uint16_t *)memory)[at];
    if (type == HALF) return from_half(bits);
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    return memcpy(&value, &wide, 4), value;
}

static void set_element(char *memory, int type, int64_t at, double value)
{
    if (type == DOUBLE) ((double *)memory)[at] = value;
    else if (type == FLOAT) ((float *)memory)[at] = (float)value;
    else if (type == HALF) ((uint16_t *)memory)[at] = to_half(value);
    else {
        const float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
        ((uint16_t *)memory)[at] = (uint16_t)(__builtin_isnan(narrow) ? 0x7fc0 : rounded >> 16);
    }
}

static void multiply(void *arguments)
{
    const product *const p = arguments;
    for (int64_t t = 0; t < p->batches; t++) for (int64_t j = 0; j < p->n; j++) for (int64_t i = 0; i < p->m; i++) {
        double sum = 0;
        for (int64_t l = 0; l < p->k; l++) {
            const int64_t a = p->left_transposed ? l + i * p->lda : i + l * p->lda;
            const int64_t b = p->right_transposed ? j + l * p->ldb : l + j * p->ldb;
            sum += element(p->a, p->type, t * p->step_a + a) * element(p->b, p->type, t * p->step_b + b);
        }
        const int64_t at = t * p->step_c + i + j * p->ldc;
        const double before = p->beta == 0 ? 0 : p->beta * element(p->c, p->type, at);
        set_element(p->c, p->type, at, p->alpha * sum + before);
    }
}

int cublasCreate_v2(blas **made) { ENTER(); return handles++, *made = calloc(1, sizeof **made), OK; }
int cublasSetStream_v2(blas *one, void *stream) { ENTER(); return one->stream = stream, OK; }

int cublasDestroy_v2(blas *one)
{
    const int failed = entered(__func__, INTERNAL);
    return free(one), handles--, failed;
}

int cublasGetProperty(int which, int *value) { ENTER(); return *value = which == 0 ? 13 : 0, OK; }

// Elements from the first to the last one of a batch of matrices.
static int64_t reach(int64_t rows, int64_t columns, int64_t leading, int64_t step, int64_t batches)
{
    return (batches - 1) * step + (columns - 1) * leading + rows;
}

int cublasGemmStridedBatchedEx(blas *one, int left_transposed, int right_transposed, int m, int n, int k,
                               const void *alpha, const char *a, int a_type, int lda, long long step_a,
                               const char *b, int b_type, int ldb, long long step_b, const void *beta,
                               char *c, int c_type, int ldc, long long step_c, int batches, int computed, int algorithm)
{
    ENTER();
    const int wide = computed == 70;
    if (a_type != c_type || b_type != c_type || wide != (c_type == DOUBLE) || (!wide && computed != 68)) return NOT_SUPPORTED;
    const int rows_a = left_transposed ? k : m, rows_b = right_transposed ? n : k;
    if (m < 1 || n < 1 || k < 1 || batches < 1 || lda < rows_a || ldb < rows_b || ldc < m || algorithm != -1) return INVALID_VALUE;
    void *const driver = dlopen("libcuda.so", RTLD_NOW | RTLD_NOLOAD);
    int (*queue_call)(void *, void (*)(void *), void *, size_t, size_t, const void *const *, const size_t *) = 0;
    if (driver) *(void **)&queue_call = dlsym(driver, "fake_queue_call");
    if (!queue_call || !one->stream) return NOT_INITIALIZED;
    const product all = {
        left_transposed, right_transposed, c_type, m, n, k, lda, ldb, ldc, step_a, step_b, step_c, batches,
        wide ? *(const double *)alpha : *(const float *)alpha, wide ? *(const double *)beta : *(const float *)beta, a, b, c,
    };
    const size_t size = bytes_of(c_type);
    const void *const memory[] = {a, b, c};
    const size_t bytes[] = {
        size * (size_t)reach(rows_a, left_transposed ? m : k, lda, step_a, batches),
        size * (size_t)reach(rows_b, right_transposed ? k : n, ldb, step_b, batches),
        size * (size_t)reach(m, n, ldc, step_c, batches),
    };
    void *const arguments = memcpy(malloc(sizeof all), &all, sizeof all);
    const int failed = queue_call(one->stream, multiply, arguments, sizeof all, 3, memory, bytes);
    dlclose(driver);
    return failed ? EXECUTION_FAILED : OK;
}

#else
enum {
    OK, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 100, INVALID_DEVICE, INVALID_IMAGE = 200, INVALID_CONTEXT,
    NO_BINARY = 209, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED, CAPTURE_UNMATCHED = 903, UNKNOWN = 999
};
#define PAGE 4096
#define MOST 4096
#define STACK (32 << 10)

static long number(const char *variable, long usual)
{
    const char *const text = getenv(variable);
    return text && *text ? strtol(text, 0, 10) : usual;
}

// A driver is called by several threads; each call is one step.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void unlocked(int *failed) { (void)failed, pthread_mutex_unlock(&lock); }
static int sticky;
static __thread void *current;
static long contexts, live_events, live_streams, live_modules, live_graphs, live_execs;
// A call that is told to fail, and every call after a fault, does nothing; those that give
// something back do it all the same.
#define STEP(usual) \
    pthread_mutex_lock(&lock); \
    __attribute__((cleanup(unlocked))) int failed = entered(__func__, usual); \
    if (!failed) failed = sticky
#define ENTER() STEP(UNKNOWN); if (failed) return failed
#define ENTER_CONTEXT() ENTER(); if (!current) return INVALID_CONTEXT

typedef struct { char *pages; size_t bytes, mapped; char *memory; int is_pinned; } allocation;
static allocation all[MOST];
static size_t used;

typedef struct event { long recorded, done, time; unsigned flags; } event;
typedef struct module { void *library; } module;
typedef struct { module *from; void (*run)(int64_t, int64_t, int64_t, char *, int64_t, const void *); } function;
typedef enum { COPY, FILL, LAUNCH, CALL, RECORD } kind;
typedef struct step {
    struct step *next;
    kind what;
    char *to;
    const char *from;
    size_t bytes;
    function *run;
    void (*call)(void *);
    int64_t blocks, threads;
    void *arguments;
    size_t argument_bytes;
    event *at;
} step;
// Work that is captured is kept, and copied to the stream by each launch of the graph.
typedef struct { step *first, **last; int is_wrong; } graph;
typedef struct { step *first, **last; graph *capture; } stream;
static stream *streams[MOST];
static unsigned long drawn = 88172645463325252ul;
static char *stacks;
// Nanoseconds.
static long now;

static unsigned long draw(void)
{
    drawn ^= drawn << 13, drawn ^= drawn >> 7;
    return drawn ^= drawn << 17;
}

__attribute__((constructor)) static void begins(void)
{
    drawn ^= (unsigned long)number("FAKE_CUDA_SEED", 0) * 0x9e3779b97f4a7c15ul;
    stacks = mmap(0, STACK * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((destructor)) static void leaves(void)
{
    FILE *const file = report();
    if (!file) return;
    long device = 0, pinned = 0;
    for (int k = 0; k < MOST; k++) if (all[k].pages) *(all[k].is_pinned ? &pinned : &device) += 1;
    fprintf(file, "left allocations %ld\nleft pinned %ld\nleft contexts %ld\n", device, pinned, contexts);
    fprintf(file, "left events %ld\nleft streams %ld\nleft modules %ld\n", live_events, live_streams, live_modules);
    fprintf(file, "left graphs %ld\nleft execs %ld\n", live_graphs, live_execs);
    fclose(file);
}

static void protect(int how)
{
    for (int k = 0; k < MOST; k++) if (all[k].pages && !all[k].is_pinned)
        mprotect(all[k].pages + PAGE, all[k].mapped - 2 * PAGE, how);
}

static int allocate(void **memory, size_t bytes, int is_pinned)
{
    if (!bytes) return INVALID_VALUE;
    if (!is_pinned && used + bytes > (size_t)number("FAKE_CUDA_MEMORY", 1l << 30)) return OUT_OF_MEMORY;
    int k = 0;
    while (k < MOST && all[k].pages) k++;
    const size_t rounded = (bytes + 255) & ~(size_t)255, inside = (rounded + PAGE - 1) & ~(size_t)(PAGE - 1);
    const size_t mapped = inside + 2 * PAGE;
    if (k == MOST) return OUT_OF_MEMORY;
    char *const pages = mmap(0, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect(pages + PAGE, inside, PROT_READ | PROT_WRITE);
    // NaN in all floating-point types. The end is at the page that cannot be touched.
    memset(pages + PAGE, 0xff, inside);
    const allocation one = {pages, bytes, mapped, pages + PAGE + inside - rounded, is_pinned};
    all[k] = one;
    if (!is_pinned) used += bytes, mprotect(pages + PAGE, inside, PROT_NONE);
    return *memory = one.memory, OK;
}

static int release(void *memory, int is_pinned)
{
    for (int k = 0; k < MOST; k++) if (all[k].pages && all[k].memory == memory && all[k].is_pinned == is_pinned) {
        munmap(all[k].pages, all[k].mapped);
        if (!is_pinned) used -= all[k].bytes;
        all[k].pages = 0;
        return OK;
    }
    return INVALID_VALUE;
}

static int is_inside(const void *memory, size_t bytes)
{
    const char *const at = memory;
    for (int k = 0; k < MOST; k++)
        if (all[k].pages && at >= all[k].memory && at + bytes <= all[k].memory + all[k].bytes) return 1;
    return 0;
}

// Does the first step of a stream.
static void advance(stream *s)
{
    static long launched;
    step *const one = s->first;
    s->first = one->next;
    if (!s->first) s->last = &s->first;
    protect(PROT_READ | PROT_WRITE);
    now += (long)one->bytes + one->blocks * one->threads;
    if (one->what == RECORD) one->at->done++, one->at->time = now;
    else if (sticky) {}
    else if (one->what == COPY) memcpy(one->to, one->from, one->bytes);
    else if (one->what == FILL) memset(one->to, 0, one->bytes);
    else if (one->what == CALL) one->call(one->arguments);
    else if (++launched == number("FAKE_CUDA_FAULT", 0)) sticky = ILLEGAL_ADDRESS;
    else one->run->run(one->blocks, one->threads, (int64_t)(draw() % 4), stacks, STACK, one->arguments);
    protect(PROT_NONE);
    free(one->arguments), free(one);
}

static void drain(void)
{
    for (int k = 0; k < MOST; k++) while (streams[k] && streams[k]->first) advance(streams[k]);
}

static int queue(stream *s, step one)
{
    step *const kept = malloc(sizeof one);
    *kept = one, kept->next = 0;
    if (s->capture) return *s->capture->last = kept, s->capture->last = &kept->next, sticky;
    *s->last = kept, s->last = &kept->next;
    if (draw() % 4 == 0) advance(s);
    return sticky;
}

int cuInit(unsigned flags) { (void)flags; ENTER(); return number("FAKE_CUDA_DEVICES", 1) ? OK : NO_DEVICE; }
int cuDriverGetVersion(int *version) { ENTER(); return *version = (int)number("FAKE_CUDA_VERSION", 13000), OK; }
int cuDeviceGetCount(int *count) { ENTER(); return *count = (int)number("FAKE_CUDA_DEVICES", 1), OK; }

int cuDeviceGet(int *device, int at)
{
    ENTER();
    return at < 0 || at >= number("FAKE_CUDA_DEVICES", 1) ? INVALID_DEVICE : (*device = at, OK);
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    ENTER();
    return snprintf(name, (size_t)bytes, "a fake GPU, number %d", device), OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    ENTER();
    return *bytes = (size_t)number("FAKE_CUDA_MEMORY", 1l << 30), OK;
}

// Architecture 9.0, 16 processors, a last cache of 4 KiB.
int cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;
    ENTER();
    return *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 16 : which == 38 ? 4096 : 0, OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ENTER();
    return contexts++, *context = (void *)(intptr_t)(device + 1), OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    STEP(UNKNOWN);
    return contexts--, failed;
}

int cuCtxSetCurrent(void *context) { ENTER(); return current = context, OK; }

int cuStreamCreate(stream **made, unsigned flags)
{
    (void)flags;
    ENTER_CONTEXT();
    int k = 0;
    while (streams[k]) k++;
    *made = streams[k] = calloc(1, sizeof **made);
    (*made)->last = &(*made)->first, live_streams++;
    return OK;
}

// A stream that is captured cannot be awaited; that spoils the capture.
int cuStreamSynchronize(stream *s)
{
    ENTER_CONTEXT();
    if (s->capture) return s->capture->is_wrong = 1, CAPTURE_UNSUPPORTED;
    while (s->first) advance(s);
    return sticky;
}

int cuStreamDestroy_v2(stream *s)
{
    STEP(UNKNOWN);
    while (s->first) advance(s);
    for (int k = 0; k < MOST; k++) if (streams[k] == s) streams[k] = 0;
    free(s), live_streams--;
    return failed;
}

int cuStreamBeginCapture_v2(stream *s, int mode)
{
    ENTER_CONTEXT();
    if (s->capture || mode < 0 || mode > 2) return INVALID_VALUE;
    s->capture = calloc(1, sizeof *s->capture);
    return s->capture->last = &s->capture->first, live_graphs++, OK;
}

static void forget(step *first)
{
    while (first) {
        step *const next = first->next;
        free(first->arguments), free(first), first = next;
    }
}

int cuGraphDestroy(graph *one)
{
    STEP(UNKNOWN);
    return forget(one->first), free(one), live_graphs--, failed;
}

// A capture ends even where the call fails.
int cuStreamEndCapture(stream *s, graph **made)
{
    STEP(UNKNOWN);
    graph *const one = s->capture;
    if (!one) return CAPTURE_UNMATCHED;
    s->capture = 0, *made = one;
    if (!failed && !one->is_wrong) return OK;
    return forget(one->first), free(one), live_graphs--, *made = 0, failed ? failed : CAPTURE_INVALIDATED;
}

// A copy of steps at the end of a list.
static step **copied(const step *from, step **last)
{
    for (; from; from = from->next, last = &(*last)->next) {
        *last = memcpy(malloc(sizeof *from), from, sizeof *from), (*last)->next = 0;
        const size_t bytes = from->argument_bytes;
        if (bytes) (*last)->arguments = memcpy(malloc(bytes), from->arguments, bytes);
    }
    return last;
}

int cuGraphInstantiateWithFlags(graph **made, graph *from, unsigned long long flags)
{
    ENTER_CONTEXT();
    if (flags) return INVALID_VALUE;
    graph *const one = *made = calloc(1, sizeof **made);
    return one->last = copied(from->first, &one->first), live_execs++, OK;
}

int cuGraphExecDestroy(graph *one)
{
    STEP(UNKNOWN);
    return forget(one->first), free(one), live_execs--, failed;
}

int cuGraphLaunch(graph *one, stream *s)
{
    ENTER_CONTEXT();
    if (s->capture) return s->capture->is_wrong = 1, CAPTURE_UNSUPPORTED;
    s->last = copied(one->first, s->last);
    if (draw() % 4 == 0 && s->first) advance(s);
    return sticky;
}

int cuEventCreate(event **made, unsigned flags)
{
    ENTER_CONTEXT();
    return *made = calloc(1, sizeof **made), (*made)->flags = flags, live_events++, OK;
}

int cuEventRecord(event *at, stream *s)
{
    ENTER_CONTEXT();
    if (s->capture) return s->capture->is_wrong = 1, CAPTURE_UNSUPPORTED;
    const step one = {.what = RECORD, .at = at};
    return at->recorded++, queue(s, one);
}

int cuEventSynchronize(event *at)
{
    ENTER_CONTEXT();
    for (int k = 0; k < MOST; k++)
        while (streams[k] && streams[k]->first && at->done < at->recorded) advance(streams[k]);
    return sticky;
}

// The flag 2 is DISABLE_TIMING.
int cuEventElapsedTime_v2(float *milliseconds, event *begin, event *end)
{
    ENTER_CONTEXT();
    if ((begin->flags | end->flags) & 2 || !begin->recorded || !end->recorded) return INVALID_HANDLE;
    if (begin->done < begin->recorded || end->done < end->recorded) return NOT_READY;
    return *milliseconds = (float)((double)(end->time - begin->time) / 1e6), OK;
}

int cuEventDestroy_v2(event *at)
{
    STEP(UNKNOWN);
    drain();
    return free(at), live_events--, failed;
}

int cuMemAlloc_v2(void **memory, size_t bytes)
{
    STEP(OUT_OF_MEMORY);
    return failed ? failed : current ? allocate(memory, bytes, 0) : INVALID_CONTEXT;
}

int cuMemFree_v2(void *memory)
{
    STEP(UNKNOWN);
    drain();
    const int freed = release(memory, 0);
    return failed ? failed : freed;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    STEP(OUT_OF_MEMORY);
    return failed ? failed : current ? allocate(memory, bytes, 1) : INVALID_CONTEXT;
}

int cuMemFreeHost(void *memory)
{
    STEP(UNKNOWN);
    drain();
    const int freed = release(memory, 1);
    return failed ? failed : freed;
}

int cuMemcpyHtoDAsync_v2(char *to, const void *from, size_t bytes, stream *s)
{
    ENTER_CONTEXT();
    if (!is_inside(to, bytes) || !is_inside(from, bytes)) return INVALID_VALUE;
    const step one = {.what = COPY, .to = to, .from = from, .bytes = bytes};
    return queue(s, one);
}

int cuMemcpyDtoHAsync_v2(void *to, const char *from, size_t bytes, stream *s)
{
    ENTER_CONTEXT();
    if (!is_inside(to, bytes) || !is_inside(from, bytes)) return INVALID_VALUE;
    const step one = {.what = COPY, .to = to, .from = from, .bytes = bytes};
    return queue(s, one);
}

int cuMemcpyDtoDAsync_v2(char *to, const char *from, size_t bytes, stream *s)
{
    ENTER_CONTEXT();
    if (!is_inside(to, bytes) || !is_inside(from, bytes)) return INVALID_VALUE;
    const step one = {.what = COPY, .to = to, .from = from, .bytes = bytes};
    return queue(s, one);
}

// For cuBLAS: work of a stream, and the memory that it touches. Takes the arguments.
int fake_queue_call(stream *s, void (*call)(void *), void *arguments, size_t argument_bytes, size_t n,
                    const void *const *memory, const size_t *bytes)
{
    pthread_mutex_lock(&lock);
    int failed = sticky ? sticky : current ? OK : INVALID_CONTEXT;
    size_t all_bytes = 0;
    for (size_t i = 0; i < n && !failed; i++) {
        if (!is_inside(memory[i], bytes[i])) failed = INVALID_VALUE;
        all_bytes += bytes[i];
    }
    const step one = {
        .what = CALL, .call = call, .arguments = arguments, .argument_bytes = argument_bytes, .bytes = all_bytes,
    };
    if (failed) free(arguments);
    else failed = queue(s, one);
    pthread_mutex_unlock(&lock);
    return failed;
}

int cuMemsetD8Async(char *to, unsigned char value, size_t bytes, stream *s)
{
    ENTER_CONTEXT();
    if (value || !is_inside(to, bytes)) return INVALID_VALUE;
    const step one = {.what = FILL, .to = to, .bytes = bytes};
    return queue(s, one);
}

int cuModuleLoadData(module **made, const void *image)
{
    ENTER_CONTEXT();
    const image_head *const head = image;
    if (memcmp(head->magic, MAGIC, sizeof MAGIC)) return INVALID_IMAGE;
    if (head->architecture != 90) return NO_BINARY;
    char path[] = P_tmpdir "/fake-module-XXXXXX";
    const int file = mkstemp(path);
    const ssize_t written = file < 0 ? -1 : write(file, head + 1, head->bytes);
    if (file >= 0) close(file);
    void *const library = written == (ssize_t)head->bytes ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : 0;
    unlink(path);
    if (!library) return INVALID_IMAGE;
    *made = calloc(1, sizeof **made), (*made)->library = library, live_modules++;
    return OK;
}

int cuModuleGetFunction(function **made, module *from, const char *name)
{
    ENTER_CONTEXT();
    char entry[300];
    snprintf(entry, sizeof entry, "%s_fake", name);
    void *const found = dlsym(from->library, entry);
    if (!found) return NOT_FOUND;
    *made = calloc(1, sizeof **made), (*made)->from = from, *(void **)&(*made)->run = found;
    return OK;
}

int cuModuleUnload(module *one)
{
    STEP(UNKNOWN);
    drain();
    return dlclose(one->library), free(one), live_modules--, failed;
}

int cuLaunchKernel(function *f, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared, stream *s, void **parameters, void **extra)
{
    ENTER_CONTEXT();
    if (!bx || by != 1 || bz != 1 || !tx || tx > 1024 || ty != 1 || tz != 1 || shared || extra) return INVALID_VALUE;
    const int64_t *const bytes = dlsym(f->from->library, "fake_launch_bytes");
    if (!bytes) return INVALID_HANDLE;
    void *const arguments = memcpy(malloc((size_t)*bytes), parameters[0], (size_t)*bytes);
    const step one = {
        .what = LAUNCH, .run = f, .blocks = bx, .threads = tx, .arguments = arguments, .argument_bytes = (size_t)*bytes,
    };
    return queue(s, one);
}
#endif
