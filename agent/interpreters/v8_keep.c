/*
 * Where V8 is, and memory for its frames. Sampler thread only.
 */

/* Have frames of V8 read from now on, if there is a recipe. */
static void v8_keep(struct agent *a)
{
    u64 used = recipes_used_of(a, RUNTIME_V8);
    u32 index = 0;
    if (!used) {
        store_release_u32(&a->v8_number, 0);
        return;
    }
    while (!(used >> index & 1))
        index++;
    if (!a->v8_places)
        a->v8_places = agent_pages(a, sizeof(struct v8_place) * V8_PLACE_SLOTS);
    if (!a->v8_known)
        a->v8_known = agent_pages(a, sizeof(struct v8_known) * V8_KNOWN_SLOTS);
    if (a->v8_places && a->v8_known && managed_prepare(a))
        store_release_u32(&a->v8_number, index + 1);
}

static void v8_free(struct agent *a)
{
    pages_free(a->v8_known, sizeof(struct v8_known) * V8_KNOWN_SLOTS);
    pages_free(a->v8_places, sizeof(struct v8_place) * V8_PLACE_SLOTS);
}
