/* fuzz_rows.c - bytes as a request to a store: it is refused or done, and a
 * pull gives as many bytes as its keys ask for.
 *
 * The first byte chooses the type, from PULL to CHANGED; the rest is the
 * payload. What a round keeps is applied afterwards.
 */
#include "kit.h"

#include "ops/ops.h"
#include "ps/store/store.h"
#include "../server_text.h"

#define REPLY_MAX (1u << 20)
#define N_TYPES (FL_MSG_CHANGED - FL_MSG_PULL + 1)

static const char declared[] = TABLE_TEXT("a", "dim=1 partitions=1")
    TABLE_TEXT("b", "dim=3 height=1000 optimizer=adam partitions=2")
        TABLE_TEXT("c", "dim=4 accessor=ctr embedx_threshold=1 partitions=1")
            SGD_START("w", "3") SERVE_TEXT("1") SGD_UPDATE("1", "w", "3");

typedef struct answer {
    void *data;
    uint64_t len;
} answer;

static void *room(void *arg, uint64_t len)
{
    answer *a = arg;

    MUST(!a->data && len);
    if (len > REPLY_MAX)
        return NULL;
    a->len = len;
    a->data = fl_alloc(len);
    return a->data;
}

static uint64_t dim_of(void *arg, uint32_t table)
{
    static const uint32_t dims[] = { 1, 3, 4 };

    (void)arg;
    return table < FL_LEN(dims) ? dims[table] : 0;
}

static void check_pull(const void *payload, uint64_t len, uint64_t got)
{
    fl_items_source from = { FL_MSG_PULL, { payload, len }, dim_of, NULL };
    fl_rows_request r;
    uint64_t bytes = 0;

    MUST(!fl_rows_unpack(&from, &r));
    for (uint32_t i = 0; i < r.n; i++)
        bytes +=
            fl_codec_bytes(r.items[i].codec,
                           r.items[i].rows.n * dim_of(NULL, r.items[i].table));
    MUST(got == bytes);
    fl_free(r.items);
}

static void request(fl_store *s, uint16_t type, const void *payload,
                    uint64_t len)
{
    answer a = { 0 };
    fl_store_reply reply = { .reserve = room, .arg = &a };
    fl_status st =
        fl_store_request(s,
                         &(fl_store_call){ .type = type,
                                           .payload = { payload, len },
                                           .step = 1,
                                           .incarnation = 1 },
                         &reply);

    if (!st && type == FL_MSG_PULL)
        check_pull(payload, len, a.len);
    fl_free(a.data);
}

/* Applies what was kept, if it is something to be kept. */
static void apply_round(fl_store *s, const void *payload, size_t len)
{
    const uint8_t *in = payload;
    uint8_t *apply = fl_try_alloc(36);
    double weight = 0.5;

    MUST(apply);
    memset(apply, 0, 36);
    memcpy(apply, in, len < 8 ? len : 8);
    apply[8] = apply[12] = 1; /* one member, rank 0; one block, 0 */
    memcpy(apply + 24, &weight, sizeof(weight));
    request(s, FL_MSG_APPLY, apply, 36);
    fl_data_free(apply, 36);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fl_store *s;
    fl_conf conf;
    void *payload;

    if (size < 1)
        return 0;
    MUST(!fl_conf_init(&conf));
    s = fl_store_new(&fl_ops, &conf);
    MUST(!fl_store_declare(s, declared, strlen(declared)));
    payload = fl_try_alloc(size - 1);
    MUST(payload);
    memcpy(payload, data + 1, size - 1);
    request(s, (uint16_t)(FL_MSG_PULL + data[0] % N_TYPES), payload, size - 1);
    /* Whatever it was, the store still works. */
    apply_round(s, payload, size - 1);
    request(s, FL_MSG_HASH, NULL, 0);
    request(s, FL_MSG_STATS, NULL, 0);
    fl_data_free(payload, size - 1);
    fl_store_free(s);
    fl_conf_release(&conf);
    return 0;
}
