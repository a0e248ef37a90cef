// The words of CUDA for clang, which knows none without NVIDIA's headers. This text stands before a
// unit of kernels.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define JO_OWN static __device__ __forceinline__
typedef struct { unsigned int x; } jo_dimension;
#define threadIdx ((jo_dimension){(unsigned int)__nvvm_read_ptx_sreg_tid_x()})
#define blockIdx ((jo_dimension){(unsigned int)__nvvm_read_ptx_sreg_ctaid_x()})
#define gridDim ((jo_dimension){(unsigned int)__nvvm_read_ptx_sreg_nctaid_x()})
#define __syncthreads() __nvvm_bar_sync(0)
JO_OWN unsigned int __shfl_down_sync(unsigned int lanes, unsigned int own, unsigned int by)
{
    return (unsigned int)__nvvm_shfl_sync_down_i32(lanes, (int)own, (int)by, 31);
}
JO_OWN unsigned int __shfl_sync(unsigned int lanes, unsigned int own, int lane)
{
    return (unsigned int)__nvvm_shfl_sync_idx_i32(lanes, (int)own, lane, 31);
}
JO_OWN float fmaf(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
JO_OWN double fma(double a, double b, double c) { return __nvvm_fma_rn_d(a, b, c); }
JO_OWN float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
JO_OWN double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
JO_OWN float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
JO_OWN double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
