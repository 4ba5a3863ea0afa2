/* dataset_position.c - how far a pass is, and beginning behind that. */
#include <inttypes.h>

#include "data/dataset/dataset_inside.h"

/* --- beginning behind a position ------------------------------------------ */

static fl_status check_kind(const fl_dataset *d, const fl_position *from)
{
    if (from->in_memory != d->in_memory)
        FL_FAIL(FL_ERR_INVAL,
                "the pass that is gone on with was over a%s, and this is "
                "a%s: give the program that was saved the same data",
                from->in_memory ? "n InMemoryDataset" : " QueueDataset",
                d->in_memory ? "n InMemoryDataset" : " QueueDataset");
    return FL_OK;
}

static fl_status check_pass(uint64_t pass, const fl_position *from)
{
    if (from->pass != pass)
        FL_FAIL(FL_ERR_INVAL,
                "the pass that is gone on with was pass %" PRIu64
                " over the files, and this is pass %" PRIu64
                ": the program has made other passes than before",
                from->pass, pass);
    return FL_OK;
}

/* Files of a position are in the order of the list, so that the next one is
   soon found behind the one before. */
static size_t find_path(const fl_paths *all, const char *path, size_t from)
{
    for (size_t i = 0; i < all->len; i++)
        if (!strcmp(all->data[(from + i) % all->len], path))
            return (from + i) % all->len;
    return all->len;
}

static fl_status list_files(const fl_paths *all, const fl_position *from,
                            const fl_file_position **before)
{
    size_t at = 0;

    for (size_t i = 0; i < from->files.len; i++) {
        const fl_file_position *f = &from->files.data[i];

        at = find_path(all, f->path, at);
        if (at == all->len)
            FL_FAIL(FL_ERR_NOTFOUND,
                    "%s was trained in the pass that is gone on with, but is "
                    "not among the %zu files of the dataset: give it the same "
                    "ones",
                    f->path, all->len);
        before[at] = f;
    }
    return FL_OK;
}

fl_status fl_position_files(const fl_dataset *d, const fl_position *from,
                            const fl_file_position ***out)
{
    const fl_paths *all = &d->input->paths;
    const fl_file_position **before;
    fl_status st;

    if (!from)
        return FL_OK;
    FL_TRY(check_kind(d, from));
    FL_TRY(check_pass(d->epoch + 1, from));
    before = fl_alloc((all->len + 1) * sizeof(*before));
    st = list_files(all, from, before);
    if (st) {
        fl_free(before);
        return st;
    }
    *out = before;
    return FL_OK;
}

fl_status fl_position_check_memory(const fl_dataset *d, const fl_position *from)
{
    uint64_t len = fl_memory_len(d->loaded->memory);
    const fl_ranges *t = from ? &from->trained : NULL;

    if (!from)
        return FL_OK;
    FL_TRY(check_kind(d, from));
    FL_TRY(check_pass(d->epoch, from));
    if (from->n_shuffles != d->n_shuffles || from->n_records != len ||
        (t->len && t->data[t->len - 1].hi > len))
        FL_FAIL(FL_ERR_INVAL,
                "the pass that is gone on with was over %" PRIu64
                " records after %" PRIu64 " shuffles, and this is over %" PRIu64
                " after %" PRIu64 ": load and shuffle the same data",
                from->n_records, from->n_shuffles, len, d->n_shuffles);
    return FL_OK;
}

fl_status fl_dataset_pass_over(fl_dataset *d)
{
    FL_TRY(fl_dataset_check_idle(d, "begin"));
    if (!d->in_memory)
        d->epoch++;
    return FL_OK;
}

/* --- how far it is --------------------------------------------------------- */

void fl_dataset_trained(fl_dataset *d, int consumer)
{
    const fl_columns *c = d->in_memory ? fl_memory_pass_held(d->walk, consumer)
                                       : fl_queue_pass_held(d->queue, consumer);

    if (c)
        fl_trained_add(d->trained, &c->runs);
}

static fl_status list_position(fl_dataset *d, fl_position *out)
{
    const fl_paths *all = &d->input->paths;

    for (size_t i = 0; i < all->len; i++) {
        fl_file_position f = { 0 };
        fl_status st = fl_trained_of(d->trained, (uint32_t)i, &f);

        if (!st && (f.is_done || f.trained.len)) {
            f.path = fl_strdup(all->data[i]);
            fl_vec_push(&out->files, f);
        } else {
            fl_vec_release(&f.trained);
        }
        if (st)
            return fl_err_ctx(st, "%s", all->data[i]);
    }
    return FL_OK;
}

fl_status fl_dataset_position(fl_dataset *d, fl_position *out)
{
    fl_file_position all = { 0 };
    fl_status st;

    FL_ASSERT(d->trained);
    out->in_memory = d->in_memory;
    out->is_dispatched = d->dispatcher.next != NULL;
    out->pass = d->epoch;
    out->n_shuffles = d->n_shuffles;
    if (d->in_memory) {
        out->n_records = fl_memory_len(d->loaded->memory);
        st = fl_trained_of(d->trained, 0, &all);
        out->trained = all.trained;
    } else {
        st = list_position(d, out);
    }
    if (st)
        fl_position_release(out);
    return st;
}
