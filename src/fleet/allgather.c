/* allgather.c - rounds of the workers of a fleet, over gathers at server 0.
 *
 * A message is a card, which all messages of a round have in common, and the
 * words of its sender.
 */
#include "fleet/allgather.h"

#include <inttypes.h>

#define NAME "fleet" /* of the gathers */

#define WORD_BYTES sizeof(uint64_t)
enum { CALL, TOTAL, CAP, CARD_WORDS };

/* A round is short enough not to be in the way of others at server 0. */
#define ROUND_WORDS_MAX ((size_t)1 << 17)
/* Around the words of a worker, in a reply: card, rank, lengths. */
#define AROUND_BYTES 64

const char *fl_fleet_call_name(fl_fleet_call call)
{
    static const char *const names[] = {
        [FL_CALL_REDUCE_SUM] = "fl_fleet_util_all_reduce (sum)",
        [FL_CALL_REDUCE_MIN] = "fl_fleet_util_all_reduce (min)",
        [FL_CALL_REDUCE_MAX] = "fl_fleet_util_all_reduce (max)",
        [FL_CALL_GATHER] = "fl_fleet_util_all_gather",
        [FL_CALL_SUM] = "fl_fleet_metrics_sum",
        [FL_CALL_MAX] = "fl_fleet_metrics_max",
        [FL_CALL_MIN] = "fl_fleet_metrics_min",
        [FL_CALL_ACC] = "fl_fleet_metrics_acc",
        [FL_CALL_MAE] = "fl_fleet_metrics_mae",
        [FL_CALL_MSE] = "fl_fleet_metrics_mse",
        [FL_CALL_RMSE] = "fl_fleet_metrics_rmse",
        [FL_CALL_AUC] = "fl_fleet_metrics_auc",
        [FL_CALL_EXACT_AUC] = "fl_fleet_metrics_exact_auc",
        [FL_CALL_EVAL] = "fl_eval_finish",
    };

    return (size_t)call < FL_LEN(names) ? names[call] : "an unknown call";
}

/* --- life ----------------------------------------------------------------- */

/* All replies of a round fit into a message. */
static size_t words_of(const fl_fleet *f)
{
    uint64_t max = (uint64_t)f->ctx->conf.max_message_bytes;
    uint64_t each = max / (uint64_t)f->role.n_workers;
    uint64_t words;

    if (each < AROUND_BYTES + FL_ALLGATHER_CAP_MIN * WORD_BYTES)
        return FL_ALLGATHER_CAP_MIN;
    words = (each - AROUND_BYTES) / WORD_BYTES;
    return words < ROUND_WORDS_MAX ? (size_t)words : ROUND_WORDS_MAX;
}

static size_t message_bytes(const fl_allgather_round *t)
{
    return (CARD_WORDS + t->cap) * WORD_BYTES;
}

fl_status fl_allgather_begin(fl_allgather_round *t, fl_fleet *f,
                             fl_fleet_call call)
{
    *t = (fl_allgather_round){ .fleet = f, .call = call };
    FL_TRY(fl_fleet_join(f, fl_fleet_call_name(call), &t->is_alone));
    t->cap = words_of(f);
    t->message = fl_try_alloc(message_bytes(t));
    if (!t->message)
        FL_FAIL(FL_ERR_NOMEM, "%s: no memory for a message of %zu bytes",
                fl_fleet_call_name(call), message_bytes(t));
    return FL_OK;
}

static void forget_round(fl_allgather_round *t)
{
    t->parts.len = 0;
    t->is_changed = false;
    fl_client_gathered_release(&t->got);
}

void fl_allgather_restart(fl_allgather_round *t)
{
    forget_round(t);
    t->ranks.len = 0;
}

void fl_allgather_end(fl_allgather_round *t)
{
    fl_allgather_restart(t);
    fl_data_free(t->message, t->message ? message_bytes(t) : 0);
    fl_vec_release(&t->parts);
    fl_vec_release(&t->ranks);
}

void *fl_allgather_words(fl_allgather_round *t)
{
    return t->message + CARD_WORDS;
}

/* --- what has come -------------------------------------------------------- */

/* The card of a part is before its words. */
static const uint64_t *card_of(const fl_allgather_part *p)
{
    return (const uint64_t *)p->words - CARD_WORDS;
}

static fl_status add_part(fl_allgather_round *t, uint32_t rank,
                          const void *bytes, uint64_t len)
{
    fl_allgather_part p = { .rank = (int)rank };

    if (rank >= (uint32_t)t->fleet->role.n_workers ||
        len < CARD_WORDS * WORD_BYTES || len % WORD_BYTES)
        FL_FAIL(FL_ERR_CORRUPT,
                "%" PRIu64 " bytes of worker %" PRIu32 " are no message of a "
                "worker",
                len, rank);
    p.words = (const uint64_t *)bytes + CARD_WORDS;
    p.n = (size_t)len / WORD_BYTES - CARD_WORDS;
    fl_vec_push(&t->parts, p);
    return FL_OK;
}

static fl_status compare_cards(const fl_allgather_part *a,
                               const fl_allgather_part *b)
{
    const uint64_t *x = card_of(a), *y = card_of(b);

    if (x[CALL] != y[CALL])
        FL_FAIL(FL_ERR_INVAL,
                "workers are in different calls: worker %d in %s, worker %d in "
                "%s; all workers make the same calls in the same order",
                a->rank, fl_fleet_call_name((fl_fleet_call)x[CALL]), b->rank,
                fl_fleet_call_name((fl_fleet_call)y[CALL]));
    if (x[TOTAL] != y[TOTAL])
        FL_FAIL(FL_ERR_INVAL,
                "worker %d brings %" PRIu64 " values and worker %d brings "
                "%" PRIu64 "; all workers bring the same number",
                a->rank, x[TOTAL], b->rank, y[TOTAL]);
    if (x[CAP] != y[CAP])
        FL_FAIL(FL_ERR_INVAL,
                "workers %d and %d have different values of max_message_bytes; "
                "give all members of the job the same",
                a->rank, b->rank);
    return FL_OK;
}

static bool has_same_ranks(const fl_allgather_round *t)
{
    if (t->parts.len != t->ranks.len)
        return false;
    for (size_t i = 0; i < t->parts.len; i++)
        if (t->parts.data[i].rank != t->ranks.data[i])
            return false;
    return true;
}

static fl_status take_round(fl_allgather_round *t)
{
    for (size_t i = 0; i < t->got.pieces.len; i++) {
        const fl_gather_piece *p = &t->got.pieces.data[i];

        FL_TRY(add_part(t, p->rank, p->bytes, p->len));
    }
    for (size_t i = 1; i < t->parts.len; i++)
        FL_TRY(compare_cards(&t->parts.data[0], &t->parts.data[i]));
    if (t->ranks.len) {
        t->is_changed = !has_same_ranks(t);
        return FL_OK;
    }
    for (size_t i = 0; i < t->parts.len; i++)
        fl_vec_push(&t->ranks, t->parts.data[i].rank);
    return FL_OK;
}

static fl_status gather(fl_allgather_round *t, size_t bytes)
{
    fl_fleet *f = t->fleet;

    FL_TRY(fl_cluster_gather(f->transpiler->job->cluster, NAME, ++f->n_gathers,
                             (fl_msg_bytes){ t->message, bytes }, &t->got));
    return take_round(t);
}

fl_status fl_allgather_run_round(fl_allgather_round *t, size_t n,
                                 uint64_t total)
{
    size_t bytes = (CARD_WORDS + n) * WORD_BYTES;
    fl_status st;

    FL_ASSERT(n <= t->cap);
    forget_round(t);
    t->message[CALL] = (uint64_t)t->call;
    t->message[TOTAL] = total;
    t->message[CAP] = t->cap;
    st = t->is_alone ? add_part(t, 0, t->message, bytes) : gather(t, bytes);
    return fl_err_ctx(st, "%s", fl_fleet_call_name(t->call));
}
