// Scans of the lanes of a warp. All lanes take part; a lane without one so far before it gets its
// own value, and numbers of lanes count modulo 32.
#if !defined JO_EMULATED
#define JO_LANE_BEFORE(type, own, by) jo_lane_before<type>(own, by)
#define JO_OF_LANE(type, own, lane) jo_of_lane<type>(own, lane)
template <typename T> JO T jo_lane_before(T own, u32 by)
{
    jo_words<T> all;
    all.words[0] = 0, all.value = own;
    JO_UNROLL
    for (int i = 0; i < (int)sizeof(all) / 4; i++) all.words[i] = __shfl_up_sync(0xffffffffu, all.words[i], by);
    return all.value;
}
template <typename T> JO T jo_of_lane(T own, u32 lane)
{
    jo_words<T> all;
    all.words[0] = 0, all.value = own;
    JO_UNROLL
    for (int i = 0; i < (int)sizeof(all) / 4; i++) all.words[i] = __shfl_sync(0xffffffffu, all.words[i], lane);
    return all.value;
}
#endif
