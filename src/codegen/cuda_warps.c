// Shuffles between the lanes of a warp, in words of 32 bits. All lanes take part; a lane without a
// partner so far below gets its own value.
#if !defined JO_EMULATED
template <typename T> union jo_words { T value; u32 words[(sizeof(T) + 3) / 4]; };
template <typename T> JO T jo_lane_below(T own, u32 by)
{
    jo_words<T> all;
    all.words[0] = 0, all.value = own;
    JO_UNROLL
    for (int i = 0; i < (int)sizeof(all) / 4; i++) all.words[i] = __shfl_down_sync(0xffffffffu, all.words[i], by);
    return all.value;
}
template <typename T> JO T jo_first_lane(T own)
{
    jo_words<T> all;
    all.words[0] = 0, all.value = own;
    JO_UNROLL
    for (int i = 0; i < (int)sizeof(all) / 4; i++) all.words[i] = __shfl_sync(0xffffffffu, all.words[i], 0);
    return all.value;
}
#endif
