/* codec.c - values and keys as bytes of a payload, and back. */
#include "ps/msg/codec.h"

#include <string.h>

#include "base/status.h"
#include "kernel/bf16.h"

/* --- values --------------------------------------------------------------- */

static void encode_f32(const float *values, size_t n, void *out)
{
    memcpy(out, values, n * sizeof(*values));
}

static void decode_f32(const void *coded, size_t n, float *out)
{
    memcpy(out, coded, n * sizeof(*out));
}

/* Rows of a few floats are the common case, and a call for each would cost more
   than they do. */
static void decode_rows_f32(const fl_codec_rows *r, float *out)
{
    const float *from = r->coded;

    for (size_t i = 0; i < r->n; i++) {
        float *to = out + (size_t)r->places[i] * r->dim;

        for (uint32_t d = 0; d < r->dim; d++)
            to[d] = *from++;
    }
}

static void encode_bf16(const float *values, size_t n, void *out)
{
    uint16_t *to = out;

    fl_bf16()->narrow(to, values, n);
    if (n % 2)
        to[n] = 0;
}

static void decode_bf16(const void *coded, size_t n, float *out)
{
    fl_bf16()->widen(out, coded, n);
}

static void decode_rows_bf16(const fl_codec_rows *r, float *out)
{
    fl_bf16()->widen_rows(out, r->places, r->coded, r->n, r->dim);
}

typedef struct codec {
    const char *name;
    uint32_t width;
    void (*encode)(const float *values, size_t n, void *out);
    void (*decode)(const void *coded, size_t n, float *out);
    void (*decode_rows)(const fl_codec_rows *rows, float *out);
} codec;

static const codec codecs[FL_CODECS] = {
    [FL_CODEC_F32] = { "f32", 4, encode_f32, decode_f32, decode_rows_f32 },
    [FL_CODEC_BF16] = { "bf16", 2, encode_bf16, decode_bf16, decode_rows_bf16 },
};

const char *fl_codec_name(fl_codec c)
{
    return codecs[c].name;
}

bool fl_codec_find(const char *name, fl_codec *out)
{
    for (int i = 0; i < FL_CODECS; i++)
        if (!strcmp(codecs[i].name, name)) {
            *out = (fl_codec)i;
            return true;
        }
    return false;
}

uint32_t fl_codec_width(fl_codec c)
{
    return codecs[c].width;
}

uint64_t fl_codec_bytes(fl_codec c, uint64_t n)
{
    return (n * codecs[c].width + 3) & ~UINT64_C(3);
}

void fl_codec_encode(fl_codec c, const float *values, size_t n, void *out)
{
    if (n)
        codecs[c].encode(values, n, out);
}

void fl_codec_decode(fl_codec c, const void *coded, size_t n, float *out)
{
    if (n)
        codecs[c].decode(coded, n, out);
}

void fl_codec_decode_rows(fl_codec c, const fl_codec_rows *rows, float *out)
{
    codecs[c].decode_rows(rows, out);
}

/* --- keys ----------------------------------------------------------------- */

uint32_t fl_keys_width(const uint64_t *keys, size_t n)
{
    uint64_t all = 1;

    for (size_t i = 0; i < n; i++)
        all |= keys[i];
    return (uint32_t)(FL_KEY_WIDTH - __builtin_clzll(all) / 8);
}

uint64_t fl_keys_bytes(uint64_t n, uint32_t width)
{
    return (n * width + 7) & ~UINT64_C(7);
}

/* How many of n keys can be read and written as 8 bytes, of which only the first
   are theirs, without leaving the memory of all. */
static uint64_t count_wide(uint64_t n, uint32_t width)
{
    uint64_t bytes = fl_keys_bytes(n, width);

    return bytes < FL_KEY_WIDTH ? 0 : (bytes - FL_KEY_WIDTH) / width + 1;
}

/* Each is written over the end of the one before it. */
void fl_keys_encode(const uint64_t *keys, size_t n, uint32_t width, void *out)
{
    uint64_t wide = count_wide(n, width), i = 0;
    uint8_t *to = out;

    for (; i < wide && i < n; i++, to += width)
        memcpy(to, &keys[i], FL_KEY_WIDTH);
    for (; i < n; i++, to += width)
        memcpy(to, &keys[i], width);
    memset(to, 0, (size_t)(fl_keys_bytes(n, width) - n * width));
}

void fl_keys_decode(const fl_coded_keys *keys, uint64_t at, size_t n,
                    uint64_t *out)
{
    const uint64_t mask = UINT64_MAX >> (FL_KEY_WIDTH - keys->width) * 8;
    const uint64_t wide = count_wide(keys->n, keys->width);
    const uint8_t *from = (const uint8_t *)keys->data + at * keys->width;

    for (size_t i = 0; i < n; i++, from += keys->width) {
        out[i] = 0;
        memcpy(&out[i], from, at + i < wide ? FL_KEY_WIDTH : keys->width);
        out[i] &= mask;
    }
}
