/* shard_index.c - ids as places in one of several equal parts of a range. */
#include <inttypes.h>

#include "ops/helpers.h"

enum { X };
enum { OUT };
enum { INDEX_NUM, NSHARDS, SHARD_ID, IGNORE_VALUE };

static fl_status shard_index_infer(fl_infer *c)
{
    int64_t n = fl_int(c, INDEX_NUM), parts = fl_int(c, NSHARDS);
    int64_t part = fl_int(c, SHARD_ID);

    FL_TRY(fl_infer_ids(c, X));
    if (n < 1 || parts < 1 || part < 0 || part >= parts)
        FL_FAIL(FL_ERR_INVAL,
                "op shard_index: index_num=%" PRId64 " ids have no part "
                "shard_id=%" PRId64 " of nshards=%" PRId64,
                n, part, parts);
    fl_tensor_like(fl_infer_out(c, OUT), fl_infer_in(c, X));
    return FL_OK;
}

static fl_status shard_index_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, X);
    int64_t n = fl_int(c, INDEX_NUM), parts = fl_int(c, NSHARDS);
    int64_t size = (n + parts - 1) / parts;
    fl_span s = fl_op_span(c, (size_t)fl_tensor_numel(x));

    for (size_t i = s.lo; i < s.hi; i++) {
        int64_t id = fl_id_at(x, (int64_t)i);

        if (id < 0 || id >= n)
            FL_FAIL(FL_ERR_INVAL,
                    "X: %" PRId64 " at place %zu is not in 0..%" PRId64, id, i,
                    n - 1);
        fl_id_put(fl_out_t(c, OUT), (int64_t)i,
                  id / size == fl_int(c, SHARD_ID) ? id % size
                                                   : fl_int(c, IGNORE_VALUE));
    }
    return FL_OK;
}

static const fl_op_case shard_index_cases[] = {
    { .in = { "i64[33,1] below=20" },
      .attrs = "{index_num=20, nshards=3, shard_id=2}" },
    { .in = { "i32[5,2] below=20" },
      .attrs = "{index_num=20, nshards=1, shard_id=0, ignore_value=7}" },
    { .in = { "i64[7,1] lod=[0,2,2,7] below=20" },
      .attrs = "{index_num=20, nshards=2, shard_id=1}" },
    { .in = { "i64[0,1]" }, .attrs = "{index_num=20, nshards=2, shard_id=1}" },
};

const fl_op fl_op_shard_index = {
    .name = "shard_index",
    .doc = "Out = the place of each id of X in part shard_id of nshards equal "
           "parts of 0..index_num-1, or ignore_value when it is in another",
    .in = { { "X", FL_SLOT_NO_GRAD } },
    .out = { { "Out", 0 } },
    .attrs = { { "index_num", FL_ATTR_INT, "0" },
               { "nshards", FL_ATTR_INT, "1" },
               { "shard_id", FL_ATTR_INT, "0" },
               { "ignore_value", FL_ATTR_INT, "-1" } },
    .flags = FL_OP_SLICED,
    .infer = shard_index_infer,
    .run = shard_index_run,
    .cases = shard_index_cases,
    .n_cases = FL_LEN(shard_index_cases),
};
