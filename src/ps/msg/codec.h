/* codec.h - how values and keys travel: the one place that knows.
 *
 * Values are f32 in memory, in files and in every sum; on the wire they may be
 * shorter. A codec is named by who packs them, for each table or block of a
 * request, and by who asks for some; so both sides know what is in a payload.
 * Keys may travel with fewer bytes than eight where none of them needs more.
 *
 * What is decoded may change meanwhile when a hostile peer shares the memory: it
 * is read once.
 */
#ifndef FL_PS_MSG_CODEC_H
#define FL_PS_MSG_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are those of the wire. */
typedef enum fl_codec {
    FL_CODEC_F32,
    FL_CODEC_BF16, /* rounded to the nearest */
} fl_codec;
#define FL_CODECS 2

const char *fl_codec_name(fl_codec c);
/* By its name: false when there is none. */
bool fl_codec_find(const char *name, fl_codec *out);

/* Bytes of one value; of n of them, with zeros up to a multiple of 4, so that
   f32 can follow. */
uint32_t fl_codec_width(fl_codec c);
uint64_t fl_codec_bytes(fl_codec c, uint64_t n);

/* Writes fl_codec_bytes. */
void fl_codec_encode(fl_codec c, const float *values, size_t n, void *out);
void fl_codec_decode(fl_codec c, const void *coded, size_t n, float *out);

/* Rows that do not go one behind the other. */
typedef struct fl_codec_rows {
    const void *coded; /* [n, dim] */
    const uint32_t *places;
    size_t n;
    uint32_t dim;
} fl_codec_rows;
/* out[places[i]*dim ..] = row i. */
void fl_codec_decode_rows(fl_codec c, const fl_codec_rows *rows, float *out);

/* --- keys ----------------------------------------------------------------- */

#define FL_KEY_WIDTH 8

/* Bytes that the largest of them needs, 1 to 8. */
uint32_t fl_keys_width(const uint64_t *keys, size_t n);
/* Of n keys, with zeros up to a multiple of 8. */
uint64_t fl_keys_bytes(uint64_t n, uint32_t width);
/* Writes fl_keys_bytes; no key needs more than the width. */
void fl_keys_encode(const uint64_t *keys, size_t n, uint32_t width, void *out);

/* Keys as they came: fl_keys_bytes of them are there. */
typedef struct fl_coded_keys {
    const void *data;
    uint64_t n;
    uint32_t width;
} fl_coded_keys;
/* The keys from number `at` on, n of them. */
void fl_keys_decode(const fl_coded_keys *keys, uint64_t at, size_t n,
                    uint64_t *out);

#endif
