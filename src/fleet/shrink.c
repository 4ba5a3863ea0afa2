/* shrink.c - rows that were not seen for long leave the tables.
 *
 * Shrinking also lets counters of rows decay, so a job does it once however
 * many workers ask for it: the first worker does, the others have nothing to
 * do. Where a worker trains copies of its own the servers must not forget rows
 * behind its back.
 */
#include "fleet/fleet.h"
#include "ir/attr.h"
#include "mode/mode_local.h"
#include "ps/proto.h"

static fl_status check_days(int unseen_days)
{
    if (unseen_days < 0)
        FL_FAIL(FL_ERR_INVAL, "fl_fleet_shrink: %d unseen days are below 0",
                unseen_days);
    return FL_OK;
}

/* --- a single process ----------------------------------------------------- */

static fl_status shrink_here(fl_ctx *c, int unseen_days, uint64_t *n_removed)
{
    const fl_op_node *n = fl_program_main(fl_ctx_pair(c).startup)->first;

    for (; n; n = n->next) {
        uint64_t removed = 0;
        fl_table *t;

        if (strcmp(n->def->name, "init_table"))
            continue;
        FL_TRY(fl_mode_local_find(
            c->comm, fl_attr_str(n, fl_op_find_attr(n->def, "table")), &t));
        FL_TRY(fl_table_shrink(t, unseen_days, &removed));
        *n_removed += removed;
    }
    return FL_OK;
}

/* --- a job ---------------------------------------------------------------- */

static void add_removed(void *sum, int server, const void *payload,
                        uint64_t len)
{
    uint64_t removed;

    (void)server;
    if (len != sizeof(removed))
        return;
    memcpy(&removed, payload, sizeof(removed));
    *(uint64_t *)sum += removed;
}

static fl_status shrink_table(fl_cluster *c, uint32_t table, int unseen_days,
                              uint64_t *n_removed)
{
    fl_pack payload = { 0 };
    fl_status st;

    fl_pack_u32(&payload, table);
    fl_pack_u32(&payload, (uint32_t)unseen_days);
    st = fl_cluster_ask(c, -1, FL_TYPE_SHRINK, true, payload.data, payload.len,
                        add_removed, n_removed);
    fl_pack_release(&payload);
    return st;
}

static fl_status shrink_job(fl_fleet *f, int unseen_days, uint64_t *n_removed)
{
    fl_transpiler *t = f->transpiler;

    if (t->mode->adds_deltas)
        FL_FAIL(FL_ERR_INVAL,
                "fl_fleet_shrink: in mode %s every worker trains copies of the "
                "rows, and rows that servers drop would come back wrong; take "
                "another mode, or do without",
                t->mode->name);
    for (size_t i = 0; i < t->dist->tables.len; i++)
        FL_TRY(shrink_table(t->cluster, (uint32_t)i, unseen_days, n_removed));
    return FL_OK;
}

fl_status fl_fleet_shrink(fl_fleet *f, int unseen_days, uint64_t *n_removed)
{
    uint64_t removed = 0;
    bool alone;

    FL_TRY(fl_fleet_join(f, "fl_fleet_shrink", &alone));
    FL_TRY(check_days(unseen_days));
    if (alone)
        FL_TRY(shrink_here(f->ctx, unseen_days, &removed));
    else if (f->role.index == 0)
        FL_TRY(shrink_job(f, unseen_days, &removed));
    if (n_removed)
        *n_removed = removed;
    return FL_OK;
}
