/*
 * Inflates what a file holds; built behind the agent's sources, with sanitizers.
 *
 *   inflate_driver FILE BYTES         the inflated bytes to stdout; ends with 1 when the stream is not good
 *   inflate_driver FILE BYTES ROUNDS  damages the stream at random, again and again: must never read or write outside
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argument_count, char **arguments)
{
    FILE *file = argument_count >= 3 ? fopen(arguments[1], "rb") : NULL;
    if (!file || fseek(file, 0, SEEK_END))
        return 2;
    size_t in_bytes = (size_t)ftell(file), out_bytes = strtoul(arguments[2], NULL, 0);
    rewind(file);
    u8 *in = malloc(in_bytes), *out = malloc(out_bytes), *damaged = malloc(in_bytes);
    if (!in || !out || !damaged || fread(in, 1, in_bytes, file) != in_bytes)
        return 2;
    fclose(file);
    if (argument_count == 3) {
        if (!inflate_zlib(in, in_bytes, out, out_bytes))
            return 1;
        fwrite(out, 1, out_bytes, stdout);
    } else {
        u64 random = 0x9e3779b97f4a7c15ULL;
        for (long i = strtol(arguments[3], NULL, 0); i; i--) {
            memcpy(damaged, in, in_bytes);
            for (int j = 0; j < 4; j++) {
                random = random * 6364136223846793005ULL + 1442695040888963407ULL;
                damaged[(random >> 33) % in_bytes] ^= (u8)(1U << (random >> 20 & 7));
            }
            inflate_zlib(damaged, in_bytes - (random >> 40 & 7) % in_bytes, out, out_bytes);
        }
    }
    free(in);
    free(out);
    free(damaged);
    return 0;
}
