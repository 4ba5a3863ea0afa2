/* hash.c - several hashes of each row of ids, as numbers below mod_by.
 *
 * The hash is XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) of the
 * bytes of the row, with the number of the hash as its seed: what PaddlePaddle
 * computes, so that its rows are found again.
 */
#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { NUM_HASH, MOD_BY };

#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u

static uint64_t turned(uint64_t v, int bits)
{
    return v << bits | v >> (64 - bits);
}

static uint64_t mixed(uint64_t so_far, uint64_t word)
{
    return turned(so_far + word * P2, 31) * P1;
}

static uint64_t merged(uint64_t h, uint64_t lane)
{
    return (h ^ mixed(0, lane)) * P1 + P4;
}

static uint64_t word_at(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Four lanes over the blocks of 32 bytes. */
static uint64_t blocks(const char **p, size_t *n, uint64_t seed)
{
    uint64_t lane[4] = { seed + P1 + P2, seed + P2, seed, seed - P1 };
    uint64_t h;

    for (; *n >= 32; *n -= 32, *p += 32)
        for (size_t i = 0; i < 4; i++)
            lane[i] = mixed(lane[i], word_at(*p + 8 * i));
    h = turned(lane[0], 1) + turned(lane[1], 7) + turned(lane[2], 12) +
        turned(lane[3], 18);
    for (size_t i = 0; i < 4; i++)
        h = merged(h, lane[i]);
    return h;
}

/* n is a multiple of 4. */
static uint64_t xxh64(const char *p, size_t n, uint64_t seed)
{
    size_t whole = n;
    uint64_t h = n >= 32 ? blocks(&p, &n, seed) : seed + P5;
    uint32_t last;

    h += whole;
    for (; n >= 8; n -= 8, p += 8)
        h = turned(h ^ mixed(0, word_at(p)), 27) * P1 + P4;
    if (n) {
        memcpy(&last, p, sizeof(last));
        h = turned(h ^ last * P1, 23) * P2 + P3;
    }
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

static fl_status hash_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, X);
    int last = x->shape.rank - 1;
    fl_tensor *out = fl_infer_out(c, OUT);
    char buf[FL_SLOT_TEXT_MAX];

    FL_TRY(fl_infer_ids(c, X));
    if (last != 1)
        FL_FAIL(FL_ERR_INVAL, "op hash: %s must be [n, k]",
                fl_infer_text(c, X, buf));
    if (fl_int(c, NUM_HASH) < 1 || fl_int(c, MOD_BY) < 1)
        FL_FAIL(FL_ERR_INVAL,
                "op hash: num_hash=%lld and mod_by=%lld must be above 0",
                (long long)fl_int(c, NUM_HASH), (long long)fl_int(c, MOD_BY));
    fl_tensor_like(out, x);
    out->shape =
        fl_shape_of(3, (int64_t[]){ x->shape.dim[0], fl_int(c, NUM_HASH), 1 });
    return FL_OK;
}

static fl_status hash_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    size_t row = (size_t)x->shape.dim[1] * fl_dtype_bytes(x->dtype);
    int64_t n = fl_int(c, NUM_HASH);
    fl_span s = fl_op_span(c, (size_t)x->shape.dim[0]);

    for (size_t i = s.lo; i < s.hi; i++)
        for (int64_t k = 0; k < n; k++) {
            uint64_t h =
                xxh64((const char *)x->data + i * row, row, (uint64_t)k);

            fl_id_put(fl_out_t(c, OUT), (int64_t)i * n + k,
                      (int64_t)(h % (uint64_t)fl_int(c, MOD_BY)));
        }
    return FL_OK;
}

static const fl_op_case hash_cases[] = {
    { .in = { "i64[33,2] below=1000" }, .attrs = "{num_hash=3, mod_by=100}" },
    { .in = { "i32[5,17] below=1000" }, .attrs = "{mod_by=100000}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=1000" },
      .attrs = "{num_hash=2, mod_by=7}" },
    { .in = { "i64[0,1]" }, .attrs = "{mod_by=7}" },
};

const fl_op fl_op_hash = {
    .name = "hash",
    .doc = "Out[i,k,0] = hash k of row i of X, below mod_by: XXH64 with seed k "
           "of its bytes",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "num_hash", FL_ATTR_INT, "1" },
               { "mod_by", FL_ATTR_INT, "100000" } },
    .flags = FL_OP_SLICED,
    .infer = hash_infer,
    .run = hash_run,
    .cases = hash_cases,
    .n_cases = FL_LEN(hash_cases),
};
