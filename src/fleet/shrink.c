/* shrink.c - rows that were not seen for long leave the tables.
 *
 * Shrinking also lets counters of rows decay, so a job does it once however
 * many workers ask for it: the first worker does, the others have nothing to
 * do.
 */
#include "fleet/fleet.h"
#include "ir/attr.h"
#include "mode/mode_local.h"

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

static fl_status shrink_job(fl_fleet *f, int unseen_days, uint64_t *n_removed)
{
    fl_job *j = fl_fleet_job(f);

    for (size_t i = 0; i < j->dist->tables.len; i++) {
        uint64_t removed;

        FL_TRY(fl_err_ctx(fl_job_shrink(j, (int)i, unseen_days, &removed),
                          "fl_fleet_shrink"));
        *n_removed += removed;
    }
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
