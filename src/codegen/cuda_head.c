// Kernels for blocks of threads, in the part of CUDA C that is also C: NVRTC and clang compile this
// text for GPUs; with JO_EMULATED, a C compiler does for the processor (runtime/emulation.c).
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
// Positions in memory and in the iteration space. A launch that needs more bits is refused.
typedef u32 jo_index;
// A launch; runtime/emulated_launch.rs says what each field means.
typedef struct {
    char *data[32];
    double floats[8];
    i64 integers[8];
    i32 rank, kept;
    jo_index rows, count;
    char *left;
    jo_index parts, share;
    jo_index shape[8], strides[32][8];
    jo_index of_block[32], of_thread[32];
} jo_launch;
#if defined JO_EMULATED
#define JO static inline __attribute__((always_inline, unused))
#define JO_KERNEL(name, ...) static void name(const jo_launch *const jo_now)
#define launch (*jo_now)
#else
#define JO static __device__ __forceinline__
// The threads of a block, and how many blocks a multiprocessor is to hold.
#define JO_KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const jo_launch launch)
#define JO_THREAD threadIdx.x
#define JO_BLOCK blockIdx.x
#define JO_BLOCKS gridDim.x
#define JO_BARRIER() __syncthreads()
#define JO_LANE (threadIdx.x % 32)
#define JO_WARP (threadIdx.x / 32)
#define JO_LANE_BELOW(type, own, by) jo_lane_below<type>(own, by)
#define JO_FIRST_LANE(type, own) jo_first_lane<type>(own)
#define JO_SHARED(type, name, count) __shared__ type name[count]
#define JO_GET(memory, at) (memory)[at]
#define JO_PUT(memory, at, value) (memory)[at] = (value)
// Several elements that one access reads or writes; a launch makes sure that they are aligned.
#define JO_WIDE(type, n) \
    typedef struct __align__(sizeof(type) * n < 16 ? sizeof(type) * n : 16) { type of[n]; } jo_##type##_##n
#define JO_FETCH(wide, memory, at) (*(const wide *)((memory) + (at)))
#define JO_DELIVER(wide, memory, at, value) (*(wide *)((memory) + (at)) = (value))
#define JO_UNROLL _Pragma("unroll")
// Most spaces have one dimension only.
#define JO_ROLLED _Pragma("unroll 1")
#define __FMA__ 1
#define __builtin_fmaf fmaf
#define __builtin_fma fma
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt sqrt
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)
#define __builtin_constant_p(x) 0
#endif
