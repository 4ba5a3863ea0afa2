/* trained.c - which records of a pass were trained.
 *
 *     blocks   | 0 | 1 | 2 | 3 | 4 | ...      of one file
 *              |--------|   |-|   |-----|
 *               n_full        pieces
 *
 * Blocks before n_full were trained as a whole. Behind them pieces of blocks
 * are kept in ascending order, those of one block apart from each other; there
 * are about as many as batches are under way, so that looking from the end
 * finds a place at once.
 */
#include "data/dataset/trained.h"

#include <string.h>

#include "base/thread.h"

/* Longest wait for blocks that other threads are parsing. */
#define PARSE_WAIT_NS (UINT64_C(60) * 1000000000)

#define NOT_KNOWN UINT64_MAX

typedef struct piece {
    uint32_t block;
    uint64_t lo, hi;
} piece;

typedef struct file {
    FL_VEC(uint64_t) sizes; /* of blocks, in records */
    size_t n_full;
    uint64_t full_records; /* of the blocks before n_full */
    FL_VEC(piece) pieces;
    bool is_ended, is_cached;
    bool was_done;    /* before, and is not read again */
    fl_ranges before; /* records that were trained before */
} file;

struct fl_trained {
    fl_mutex mu; /* guards all below */
    fl_cond told;
    bool is_closed;
    size_t n_files;
    file *files;
};

fl_trained *fl_trained_new(size_t n_files)
{
    fl_trained *t = fl_alloc(sizeof(*t));

    t->n_files = n_files;
    t->files = fl_alloc((n_files + 1) * sizeof(*t->files));
    fl_mutex_init(&t->mu);
    fl_cond_init(&t->told);
    return t;
}

void fl_trained_free(fl_trained *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_files; i++) {
        fl_vec_release(&t->files[i].sizes);
        fl_vec_release(&t->files[i].pieces);
        fl_vec_release(&t->files[i].before);
    }
    fl_cond_release(&t->told);
    fl_mutex_release(&t->mu);
    fl_free(t->files);
    fl_free(t);
}

/* --- pieces, under the mutex ---------------------------------------------- */

/* The first block that is not full yet may have become so. */
static void advance(file *f)
{
    size_t n = 0;

    while (f->n_full < f->sizes.len && f->sizes.data[f->n_full] != NOT_KNOWN) {
        const piece *p = n < f->pieces.len ? &f->pieces.data[n] : NULL;
        uint64_t size = f->sizes.data[f->n_full];
        bool has_piece = p && p->block == f->n_full;

        if (size && !(has_piece && p->lo == 0 && p->hi == size))
            break;
        n += has_piece;
        f->full_records += size;
        f->n_full++;
    }
    f->pieces.len -= n;
    if (n && f->pieces.len)
        memmove(f->pieces.data, f->pieces.data + n,
                f->pieces.len * sizeof(*f->pieces.data));
}

static bool is_before(const piece *a, const piece *b)
{
    return a->block < b->block || (a->block == b->block && a->lo < b->lo);
}

static bool goes_on(const piece *a, const piece *b)
{
    return a->block == b->block && a->hi == b->lo;
}

/* Where a piece belongs: behind those that begin before it. */
static size_t place_of(const file *f, const piece *p)
{
    size_t at = f->pieces.len;

    while (at && is_before(p, &f->pieces.data[at - 1]))
        at--;
    return at;
}

static void insert(file *f, size_t at, const piece *p)
{
    piece *all;

    fl_vec_push(&f->pieces, *p);
    all = f->pieces.data;
    memmove(all + at + 1, all + at, (f->pieces.len - 1 - at) * sizeof(*all));
    all[at] = *p;
}

static void drop(file *f, size_t at)
{
    piece *all = f->pieces.data;

    f->pieces.len--;
    memmove(all + at, all + at + 1, (f->pieces.len - at) * sizeof(*all));
}

static void add_piece(file *f, const piece *p)
{
    size_t at = place_of(f, p);
    piece *all = f->pieces.data;
    bool joins_last = at && goes_on(&all[at - 1], p);
    bool joins_next = at < f->pieces.len && goes_on(p, &all[at]);

    if (joins_last)
        all[at - 1].hi = p->hi;
    else if (joins_next)
        all[at].lo = p->lo;
    else
        insert(f, at, p);
    if (joins_last && joins_next) {
        all[at - 1].hi = all[at].hi;
        drop(f, at);
    }
}

/* --- what is told --------------------------------------------------------- */

void fl_trained_begin(fl_trained *t, uint32_t file_at, bool is_cached)
{
    fl_lock(&t->mu);
    t->files[file_at].is_cached = is_cached;
    fl_unlock(&t->mu);
}

void fl_trained_block(fl_trained *t, uint32_t file_at, uint32_t block,
                      uint64_t n)
{
    file *f = &t->files[file_at];

    fl_lock(&t->mu);
    while (f->sizes.len <= block)
        fl_vec_push(&f->sizes, NOT_KNOWN);
    f->sizes.data[block] = n;
    advance(f);
    fl_cond_wake_all(&t->told);
    fl_unlock(&t->mu);
}

void fl_trained_end(fl_trained *t, uint32_t file_at)
{
    fl_lock(&t->mu);
    t->files[file_at].is_ended = true;
    fl_unlock(&t->mu);
}

void fl_trained_before(fl_trained *t, uint32_t file_at,
                       const fl_file_position *before)
{
    file *f = &t->files[file_at];

    fl_lock(&t->mu);
    f->was_done = before->is_done;
    f->is_cached = before->is_cached;
    fl_ranges_unite(&f->before, &before->trained);
    fl_unlock(&t->mu);
}

void fl_trained_close(fl_trained *t)
{
    fl_lock(&t->mu);
    t->is_closed = true;
    fl_cond_wake_all(&t->told);
    fl_unlock(&t->mu);
}

void fl_trained_add(fl_trained *t, const fl_row_runs *runs)
{
    fl_lock(&t->mu);
    for (size_t i = 0; i < runs->len; i++) {
        const fl_row_run *r = &runs->data[i];
        file *f = &t->files[r->file];

        add_piece(f, &(piece){ r->block, r->at, r->at + r->n });
        advance(f);
    }
    fl_unlock(&t->mu);
}

/* --- as records of a file ------------------------------------------------- */

/* The sizes of all blocks before the last piece. */
static bool knows_sizes(const file *f)
{
    size_t n = f->pieces.len ? f->pieces.data[f->pieces.len - 1].block : 0;

    for (size_t i = f->n_full; i < n; i++)
        if (i >= f->sizes.len || f->sizes.data[i] == NOT_KNOWN)
            return false;
    return true;
}

static fl_status wait_for_sizes(fl_trained *t, const file *f)
{
    uint64_t deadline = fl_now_ns() + PARSE_WAIT_NS;
    bool is_late = false;

    while (!knows_sizes(f) && !t->is_closed && !is_late)
        is_late = !fl_cond_wait_until(&t->told, &t->mu, deadline);
    if (!knows_sizes(f))
        FL_FAIL(FL_ERR_TIMEOUT,
                "a block of text before those that were trained is not "
                "parsed%s",
                t->is_closed ? ": the pass over the data has failed"
                             : " after 60 s");
    return FL_OK;
}

static void list_ranges(const file *f, fl_ranges *out)
{
    uint64_t first = f->full_records;
    size_t block = f->n_full;

    fl_ranges_add(out, 0, first);
    for (size_t i = 0; i < f->pieces.len; i++) {
        const piece *p = &f->pieces.data[i];

        for (; block < p->block; block++)
            first += f->sizes.data[block];
        fl_ranges_add(out, first + p->lo, first + p->hi);
    }
}

/* What was trained before and has not come yet counts as well. */
static fl_status read_file(fl_trained *t, const file *f, fl_ranges *out)
{
    FL_TRY(wait_for_sizes(t, f));
    list_ranges(f, out);
    fl_ranges_unite(out, &f->before);
    return FL_OK;
}

fl_status fl_trained_of(fl_trained *t, uint32_t file_at, fl_file_position *out)
{
    const file *f = &t->files[file_at];
    fl_status st;

    fl_lock(&t->mu);
    st = read_file(t, f, &out->trained);
    out->is_done = f->was_done || (f->is_ended && f->n_full == f->sizes.len);
    out->is_cached = f->is_cached;
    fl_unlock(&t->mu);
    return st;
}
