// Elements of less than four bytes that one access reads, in words. A thread that had them one by
// one would take them apart as soon as they arrive, and so wait for them before it reads others.
#if !defined JO_EMULATED
#define JO_PACKED(type, n) \
    typedef struct __align__(sizeof(type) * n < 16 ? sizeof(type) * n : 16) { u32 words[sizeof(type) * n / 4]; } \
        jo_packed_##type##_##n
#define JO_PART(type, packed, at) jo_part<type>(packed, at)
template <typename T, typename P> JO T jo_part(const P &packed, i32 at)
{
    const i32 in_word = 4 / (i32)sizeof(T);
    return (T)(packed.words[at / in_word] >> at % in_word * 8 * (i32)sizeof(T));
}
#endif
