/* hash.c - HASH: a hash of each table and block. */
#include "ps/client/client_inside.h"
#include "ps/store/store_inside.h"
#include "ps/sum.h"

const fl_msg_payload fl_msg_hash_request = { .fields = fl_fields_none };
/* A u64 per table, then one per block. */
const fl_msg_payload fl_msg_hash_reply = { .fields = fl_fields_rest };

static fl_status add_hashes(void *sum, int server, fl_msg_bytes bytes)
{
    (void)server;
    if (bytes.len % sizeof(uint64_t))
        return fl_msg_bad_reply(FL_MSG_HASH, bytes.len);
    fl_sum_model(sum, bytes.data, bytes.len);
    return FL_OK;
}

fl_status fl_client_hash(fl_client *c, uint64_t *hash, fl_ending ending)
{
    fl_call_spec call = { .type = FL_MSG_HASH,
                          .server = FL_ALL_SERVERS,
                          .take = add_hashes,
                          .out = hash };

    return fl_client_call(c, &call, ending);
}

static fl_status hash_all(const fl_store_schema *w, uint64_t *out)
{
    for (size_t i = 0; i < w->tables.len; i++)
        FL_TRY(fl_store_hash_table(&w->tables.data[i], out++));
    for (size_t i = 0; i < w->blocks.len; i++)
        *out++ = fl_dense_hash(w->blocks.data[i].dense);
    return FL_OK;
}

fl_status fl_store_hash(fl_store_ctx *c)
{
    size_t n = c->schema->tables.len + c->schema->blocks.len;
    uint64_t *sums = fl_alloc(sizeof(*sums) * n);
    fl_status st = hash_all(c->schema, sums);

    if (!st)
        st = fl_store_answer(c, &(fl_msg_bytes){ sums, sizeof(*sums) * n });
    fl_free(sums);
    return st;
}
