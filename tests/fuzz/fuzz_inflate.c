/*
 * Fuzz target: inflating any stream. Blocks have their exact sizes, so that AddressSanitizer sees a byte read or written
 * outside.
 *
 * Input: bytes of output asked for (2), then the stream.
 */
#include "input.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct input input = {data, data + size};
    u64 out_bytes = take(&input, 2), in_bytes = (u64)(input.end - input.at);
    u8 *in = malloc(in_bytes), *out = malloc(out_bytes);
    if ((!in && in_bytes) || (!out && out_bytes))
        abort();
    if (in_bytes)
        memcpy(in, input.at, in_bytes);
    inflate_zlib(in, in_bytes, out, out_bytes);
    free(out);
    free(in);
    return 0;
}
