// Devices convert halves by one instruction; only the bits of a NaN are others than those of the
// functions above.
#if !defined JO_EMULATED
JO float jo_half_widened(u16 h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
JO u16 jo_half_narrowed(float x) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#define jo_from_half(h) jo_half_widened(h)
#define jo_to_half(x) jo_half_narrowed(x)
#endif
