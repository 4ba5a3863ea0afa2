/* gathered.c - the parts of a gather, and one reply of them for everybody. */
#include "ps/coord/gathered.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

#define WORD UINT64_C(8)

/* Before the bytes of a part, and before the first part. */
typedef struct part_head {
    uint32_t rank, zero;
    uint64_t len;
} part_head;

struct fl_gathered {
    atomic_int n_refs;
    uint32_t head[2];      /* number of parts, 0 */
    struct iovec pieces[]; /* the head first */
};

/* --- one part ------------------------------------------------------------- */

fl_status fl_gather_part_make(fl_gather_part *out, uint32_t rank,
                              const void *bytes, uint64_t len)
{
    part_head head = { .rank = rank, .len = len };
    uint64_t padded = (len + WORD - 1) / WORD * WORD;
    uint8_t *to;

    if (len > FL_GATHER_BYTES_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "trainer %" PRIu32 " brings %" PRIu64 " bytes to a gather, and "
                "at most %" PRIu64 " are taken: bring them in several gathers",
                rank, len, FL_GATHER_BYTES_MAX);
    to = fl_try_alloc((size_t)(sizeof(head) + padded));
    if (!to)
        FL_FAIL(FL_ERR_NOMEM,
                "server 0 has no memory for the %" PRIu64 " bytes that trainer "
                "%" PRIu32 " brings to a gather",
                len, rank);
    memcpy(to, &head, sizeof(head));
    if (len)
        memcpy(to + sizeof(head), bytes, (size_t)len);
    memset(to + sizeof(head) + len, 0, (size_t)(padded - len));
    *out = (fl_gather_part){ .data = to, .bytes = sizeof(head) + padded };
    return FL_OK;
}

void fl_gather_part_release(fl_gather_part *p)
{
    fl_data_free(p->data, (size_t)p->bytes);
    *p = (fl_gather_part){ 0 };
}

/* --- all of them ---------------------------------------------------------- */

fl_gathered *fl_gathered_new(uint32_t n)
{
    fl_gathered *g =
        fl_alloc(sizeof(*g) + ((size_t)n + 1) * sizeof(*g->pieces));

    atomic_init(&g->n_refs, 1);
    g->pieces[0] = (struct iovec){ g->head, sizeof(g->head) };
    return g;
}

void fl_gathered_add(fl_gathered *g, fl_gather_part *p)
{
    g->pieces[++g->head[0]] = (struct iovec){ p->data, (size_t)p->bytes };
    *p = (fl_gather_part){ 0 };
}

void fl_gathered_ref(fl_gathered *g)
{
    atomic_fetch_add(&g->n_refs, 1);
}

void fl_gathered_unref(void *gathered)
{
    fl_gathered *g = gathered;

    if (!g || atomic_fetch_sub(&g->n_refs, 1) > 1)
        return;
    for (uint32_t i = 1; i <= g->head[0]; i++)
        fl_data_free(g->pieces[i].iov_base, g->pieces[i].iov_len);
    fl_free(g);
}

const struct iovec *fl_gathered_pieces(const fl_gathered *g, int *n)
{
    *n = (int)g->head[0] + 1;
    return g->pieces;
}
