/* beam_search.c - one step of a search that keeps the likeliest beginnings.
 *
 * A row is a beginning; `level` of the offsets of scores says which rows belong
 * to one source. Of all that may follow the rows of a source, beam_size are
 * kept. What has ended stays what it is; a source of which all has ended is left
 * out. Offsets of what is kept: rows of each source, and what follows each row.
 *
 * What is kept decides the shape, so infer searches, and leaves it in the
 * workspace for the run.
 */
#include <inttypes.h>
#include <math.h>

#include "ops/beams.h"
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { PRE_IDS, PRE_SCORES, IDS, SCORES };
enum { SELECTED_IDS, SELECTED_SCORES, PARENT_IDX };
enum { LEVEL, BEAM_SIZE, END_ID, IS_ACCUMULATED };

/* Something that may follow a row. */
typedef struct candidate {
    int64_t row, id;
    double score;
} candidate;

/* In the workspace: what is kept, in the order of rows, and offsets. */
typedef struct found {
    int64_t n_sources, n_rows, n_kept;
    int64_t *of_source, *of_row;
    candidate *kept, *best; /* of all, of one source */
} found;

/* --- searching ------------------------------------------------------------ */

typedef struct search {
    const fl_tensor *pre_ids, *pre_scores, *ids, *scores;
    int64_t width, end_id;
    size_t beam_size;
    bool is_accumulated;
} search;

static search search_of(const fl_infer *c)
{
    const fl_tensor *scores = fl_infer_in(c, SCORES);

    return (search){
        .pre_ids = fl_infer_in(c, PRE_IDS),
        .pre_scores = fl_infer_in(c, PRE_SCORES),
        .ids = fl_infer_in(c, IDS),
        .scores = scores,
        .width = fl_shape_count(&scores->shape, 1, scores->shape.rank),
        .end_id = fl_int(c, END_ID),
        .beam_size = (size_t)fl_int(c, BEAM_SIZE),
        .is_accumulated = fl_bool(c, IS_ACCUMULATED),
    };
}

/* Of equal scores the later row counts for more. */
static bool is_worse(const candidate *a, const candidate *b)
{
    return a->score < b->score || (a->score == b->score && a->row < b->row);
}

/* Puts one among the best, which are in order; gives how many there are. */
static size_t insert(candidate *best, size_t n, size_t room, candidate new)
{
    size_t at = n < room ? n : room - 1;

    if (n == room && is_worse(&new, &best[at]))
        return n;
    for (; at > 0 && is_worse(&best[at - 1], &new); at--)
        best[at] = best[at - 1];
    best[at] = new;
    return n < room ? n + 1 : n;
}

static candidate candidate_at(const search *q, int64_t row, int64_t i)
{
    int64_t at = row * q->width + i;
    double score = fl_float_at(q->scores, at);

    if (!q->is_accumulated)
        score = fl_float_at(q->pre_scores, row) + log(score);
    return (candidate){ row, q->ids ? fl_id_at(q->ids, at) : i, score };
}

static bool has_ended(const search *q, int64_t row)
{
    return fl_id_at(q->pre_ids, row) == q->end_id;
}

/* The best of the rows of a source; gives how many. */
static size_t search_source(const search *q, int64_t lo, int64_t hi,
                            candidate *best)
{
    size_t n = 0;

    for (int64_t row = lo; row < hi; row++) {
        candidate end = { row, q->end_id, fl_float_at(q->pre_scores, row) };
        int64_t width = has_ended(q, row) ? 1 : q->width;

        for (int64_t i = 0; i < width; i++)
            n = insert(best, n, q->beam_size,
                       has_ended(q, row) ? end : candidate_at(q, row, i));
    }
    return n;
}

static bool is_over(const search *q, const candidate *best, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (best[i].id != q->end_id || !has_ended(q, best[i].row))
            return false;
    return true;
}

/* Keeps what follows the rows of a source, row after row. */
static void keep(const search *q, found *f, int64_t lo, int64_t hi)
{
    size_t n = search_source(q, lo, hi, f->best);

    if (is_over(q, f->best, n))
        n = 0;
    for (int64_t row = lo; row < hi; row++) {
        for (size_t i = 0; i < n; i++)
            if (f->best[i].row == row)
                f->kept[f->n_kept++] = f->best[i];
        f->of_row[row + 1] = f->n_kept;
    }
}

/* --- infer ---------------------------------------------------------------- */

/* The first row of entry i of a level. */
static int64_t first_row(const fl_tensor *t, int level, int64_t i)
{
    for (; level < t->n_lod; level++)
        i = t->lod[level][i];
    return i;
}

static fl_status check_sizes(const fl_infer *c, const search *q)
{
    int64_t rows = q->scores->shape.dim[0], level = fl_int(c, LEVEL);
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (level < 0 || level >= q->scores->n_lod)
        FL_FAIL(FL_ERR_INVAL,
                "op beam_search: %s has no offsets of level %" PRId64,
                fl_infer_text(c, SCORES, a), level);
    for (int slot = PRE_IDS; slot <= PRE_SCORES; slot++)
        if (fl_tensor_numel(fl_infer_in(c, slot)) != rows)
            FL_FAIL(FL_ERR_INVAL,
                    "op beam_search: %s must have a number for each row of %s",
                    fl_infer_text(c, slot, a), fl_infer_text(c, SCORES, b));
    if (q->ids && fl_tensor_numel(q->ids) != fl_tensor_numel(q->scores))
        FL_FAIL(FL_ERR_INVAL, "op beam_search: %s must be as large as %s",
                fl_infer_text(c, IDS, a), fl_infer_text(c, SCORES, b));
    return FL_OK;
}

static fl_status check_inputs(const fl_infer *c)
{
    FL_TRY(fl_infer_ids(c, PRE_IDS));
    FL_TRY(fl_infer_float(c, SCORES));
    FL_TRY(fl_infer_same_dtype(c, SCORES, PRE_SCORES));
    if (fl_infer_in(c, IDS))
        FL_TRY(fl_infer_ids(c, IDS));
    if (fl_int(c, BEAM_SIZE) < 1 || fl_int(c, BEAM_SIZE) > FL_BEAM_SIZE_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op beam_search: beam_size=%" PRId64 " is not in 1..%d",
                fl_int(c, BEAM_SIZE), FL_BEAM_SIZE_MAX);
    return FL_OK;
}

static fl_status make_room(const fl_infer *c, const search *q, found **out)
{
    int64_t n_sources = q->scores->lod_len[fl_int(c, LEVEL)] - 1;
    int64_t n_rows = q->scores->shape.dim[0];
    size_t offsets = (size_t)(n_sources + n_rows) + 2;
    size_t kept = ((size_t)n_sources + 1) * q->beam_size;
    void *memory;
    found *f;

    FL_TRY(fl_infer_workspace(
        c, sizeof(*f) + offsets * sizeof(int64_t) + kept * sizeof(candidate),
        &memory));
    f = memory;
    *f = (found){ .n_sources = n_sources, .n_rows = n_rows };
    f->of_source = (int64_t *)(f + 1);
    f->of_row = f->of_source + n_sources + 1;
    f->best = (candidate *)(f->of_row + n_rows + 1);
    f->kept = f->best + q->beam_size;
    *out = f;
    return FL_OK;
}

static fl_status find(const fl_infer *c, found **out)
{
    search q = search_of(c);
    int level = (int)fl_int(c, LEVEL);
    found *f;

    FL_TRY(check_sizes(c, &q));
    FL_TRY(make_room(c, &q, &f));
    f->of_row[0] = 0;
    for (int64_t s = 0; s <= f->n_sources; s++)
        f->of_source[s] = first_row(q.scores, level, s);
    for (int64_t s = 0; s < f->n_sources; s++)
        keep(&q, f, f->of_source[s], f->of_source[s + 1]);
    *out = f;
    return FL_OK;
}

static void infer_ragged(const fl_infer *c, int slot, fl_dtype dtype,
                         const found *f)
{
    fl_tensor *t = fl_infer_out(c, slot);

    fl_infer_dense(c, slot, dtype, 2, (int64_t[]){ f ? f->n_kept : -1, 1 });
    t->kind = FL_KIND_RAGGED;
    t->n_lod = FL_BEAM_LEVELS;
    t->lod[FL_BEAM_SOURCES] = f ? f->of_source : NULL;
    t->lod[FL_BEAM_ROWS] = f ? f->of_row : NULL;
    t->lod_len[FL_BEAM_SOURCES] = f ? f->n_sources + 1 : 0;
    t->lod_len[FL_BEAM_ROWS] = f ? f->n_rows + 1 : 0;
}

static fl_status beam_search_infer(fl_infer *c)
{
    found *f = NULL;

    FL_TRY(check_inputs(c));
    if (c->running)
        FL_TRY(find(c, &f));
    infer_ragged(c, SELECTED_IDS, fl_infer_in(c, PRE_IDS)->dtype, f);
    infer_ragged(c, SELECTED_SCORES, fl_infer_in(c, SCORES)->dtype, f);
    fl_infer_dense(c, PARENT_IDX, FL_DTYPE_I32, 1,
                   (int64_t[]){ f ? f->n_kept : -1 });
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static fl_status beam_search_run(fl_op_ctx *c)
{
    const found *f = fl_op_workspace(c);

    for (int64_t i = 0; i < f->n_kept; i++) {
        fl_id_put(fl_out_t(c, SELECTED_IDS), i, f->kept[i].id);
        fl_beam_put(fl_out_t(c, SELECTED_SCORES), i, f->kept[i].score);
        if (fl_out_t(c, PARENT_IDX))
            fl_id_put(fl_out_t(c, PARENT_IDX), i, f->kept[i].row);
    }
    return FL_OK;
}

#define BY_SOURCES "lod=[0,2,4] lod=[0,1,2,3,4]"

static const fl_op_case beam_search_cases[] = {
    { .in = { "i64[4,1] " BY_SOURCES " below=3", "f32[4,1] " BY_SOURCES,
              "i64[4,3] " BY_SOURCES " below=9", "f32[4,3] " BY_SOURCES },
      .attrs = "{beam_size=2, end_id=0}" },
    { .in = { "i64[4,1] below=3", "f32[4,1]", "",
              "f32[4,3] lod=[0,3,4] below=1" },
      .attrs = "{beam_size=3, end_id=1, is_accumulated=false}" },
    { .in = { "i64[2,1] is=[5,5]", "f32[2,1]", "", "f32[2,3] lod=[0,2]" },
      .attrs = "{beam_size=2, end_id=5}" },
    { .in = { "i64[0,1]", "f32[0,1]", "", "f32[0,3] lod=[0,0]" },
      .attrs = "{beam_size=2}" },
};

#define VALUE (FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE)

const fl_op fl_op_beam_search = {
    .name = "beam_search",
    .doc = "For each source, which is an entry of `level` of the offsets of "
           "scores, the beam_size likeliest that follow its rows: ids (or "
           "their places) and scores, added to pre_scores as logarithms unless "
           "is_accumulated. A row whose pre_ids is end_id goes on as it is; a "
           "source of which all rows have ended is left out. parent_idx = the "
           "rows that they follow",
    .in = { { "pre_ids", VALUE },
            { "pre_scores", VALUE },
            { "ids", VALUE | FL_OP_SLOT_OPTIONAL },
            { "scores", VALUE } },
    .out = { { "selected_ids", FL_SLOT_NO_GRAD },
             { "selected_scores", FL_SLOT_NO_GRAD },
             { "parent_idx", FL_SLOT_NO_GRAD | FL_OP_SLOT_BYPRODUCT } },
    .attrs = { { "level", FL_ATTR_INT, "0" },
               { "beam_size", FL_ATTR_INT, "1" },
               { "end_id", FL_ATTR_INT, "0" },
               { "is_accumulated", FL_ATTR_BOOL, "true" } },
    .infer = beam_search_infer,
    .run = beam_search_run,
    .cases = beam_search_cases,
    .n_cases = FL_LEN(beam_search_cases),
};
