/* chunk_eval.c - pieces that a tagger found in sequences, against those that
 * are there.
 *
 * A label is type * tags + tag, and num_chunk_types * tags or above for what is
 * in no piece. What the tags are, the scheme says: a piece begins, goes on,
 * ends, or is single.
 */
#include <inttypes.h>

#include "ops/helpers.h"
#include "ops/padded.h"

enum { INFERENCE, LABEL, SEQ_LENGTH };
enum { PRECISION, RECALL, F1, N_INFER, N_LABEL, N_CORRECT };
enum { NUM_CHUNK_TYPES, CHUNK_SCHEME, EXCLUDED };

/* Numbers of tags; -1: the scheme has none. */
typedef struct scheme {
    const char *name;
    int64_t n_tags, begin, inside, end, single;
} scheme;

static const scheme schemes[] = {
    { "IOB", 2, 0, 1, -1, -1 },
    { "IOE", 2, -1, 0, 1, -1 },
    { "IOBES", 4, 0, 1, 2, 3 },
    { "plain", 1, -1, -1, -1, -1 },
};

static const scheme *scheme_of(const fl_op_node *n)
{
    for (size_t i = 0; i < FL_LEN(schemes); i++)
        if (!strcmp(schemes[i].name, fl_attr_str(n, CHUNK_SCHEME)))
            return &schemes[i];
    return NULL;
}

/* --- shapes --------------------------------------------------------------- */

static fl_status chunk_eval_infer(fl_infer *c)
{
    const fl_shape *x = &fl_infer_in(c, INFERENCE)->shape;
    char a[FL_SLOT_TEXT_MAX], b[FL_SLOT_TEXT_MAX];

    if (!scheme_of(c->node))
        FL_FAIL(FL_ERR_INVAL,
                "op chunk_eval: chunk_scheme=%s is not IOB, IOE, IOBES or "
                "plain",
                fl_str_attr(c, CHUNK_SCHEME));
    FL_TRY(fl_infer_ids(c, INFERENCE));
    FL_TRY(fl_infer_ids(c, LABEL));
    if (!fl_shape_matches(x, &fl_infer_in(c, LABEL)->shape))
        FL_FAIL(FL_ERR_INVAL,
                "op chunk_eval: %s and %s must have the same shape",
                fl_infer_text(c, INFERENCE, a), fl_infer_text(c, LABEL, b));
    FL_TRY(fl_infer_runs(c, LABEL, SEQ_LENGTH));
    for (int i = PRECISION; i <= F1; i++)
        fl_infer_dense(c, i, FL_DTYPE_F32, 1, (int64_t[]){ 1 });
    for (int i = N_INFER; i <= N_CORRECT; i++)
        fl_infer_dense(c, i, FL_DTYPE_I64, 1, (int64_t[]){ 1 });
    return FL_OK;
}

/* --- pieces --------------------------------------------------------------- */

typedef struct chunk {
    size_t begin, end; /* the rows [begin, end) */
    int64_t type;
} chunk;

typedef struct tagged {
    int64_t tag, type;
} tagged;

/* A walk over the pieces of one sequence. */
typedef struct walk {
    const fl_tensor *labels;
    const scheme *scheme;
    int64_t n_types;
    fl_span rows; /* what is left */
    tagged before;
} walk;

static bool ends_piece(const scheme *s, int64_t tag)
{
    return tag == s->end || tag == s->single;
}

static bool begins_piece(const scheme *s, int64_t tag)
{
    return tag == s->begin || tag == s->single;
}

/* Is there a border between two neighbours, of which both are in pieces of one
   type? */
static bool parts(const scheme *s, tagged a, tagged b)
{
    return ends_piece(s, a.tag) || begins_piece(s, b.tag);
}

static tagged read_at(const walk *w, size_t row)
{
    int64_t v = fl_id_at(w->labels, (int64_t)row), n = w->scheme->n_tags;

    return (tagged){ v % n, v / n };
}

static bool begins(const walk *w, tagged now)
{
    return now.type != w->n_types &&
           (now.type != w->before.type || parts(w->scheme, w->before, now));
}

static bool ends(const walk *w, tagged now)
{
    return now.type != w->before.type || parts(w->scheme, w->before, now);
}

/* The next piece; false when there is none. */
static bool next_chunk(walk *w, chunk *out)
{
    bool inside = false;

    while (w->rows.lo < w->rows.hi) {
        tagged now = read_at(w, w->rows.lo);

        if (inside && ends(w, now)) {
            out->end = w->rows.lo;
            return true;
        }
        if (begins(w, now)) {
            *out = (chunk){ .begin = w->rows.lo, .type = now.type };
            inside = true;
        }
        w->before = now;
        w->rows.lo++;
    }
    out->end = w->rows.hi;
    return inside;
}

/* --- counting ------------------------------------------------------------- */

static bool counts(const fl_op_node *n, const chunk *k)
{
    size_t len;
    const int64_t *excluded = fl_attr_ints(n, EXCLUDED, &len);

    for (size_t i = 0; i < len; i++)
        if (excluded[i] == k->type)
            return false;
    return true;
}

static walk walk_over(const fl_op_ctx *c, int slot, fl_span rows)
{
    int64_t n_types = fl_int(c, NUM_CHUNK_TYPES);

    return (walk){ .labels = fl_in_t(c, slot),
                   .scheme = scheme_of(c->node),
                   .n_types = n_types,
                   .rows = rows,
                   .before = { -1, n_types } };
}

static int64_t count_chunks(const fl_op_ctx *c, int slot, fl_span rows)
{
    walk w = walk_over(c, slot, rows);
    int64_t n = 0;
    chunk k;

    while (next_chunk(&w, &k))
        n += counts(c->node, &k);
    return n;
}

static bool same(const chunk *a, const chunk *b)
{
    return a->begin == b->begin && a->end == b->end && a->type == b->type;
}

/* Pieces in both, which come in the order of their ends. */
static int64_t count_correct(const fl_op_ctx *c, fl_span rows)
{
    walk found = walk_over(c, INFERENCE, rows);
    walk there = walk_over(c, LABEL, rows);
    chunk a, b;
    bool has_a = next_chunk(&found, &a), has_b = next_chunk(&there, &b);
    int64_t n = 0;

    while (has_a && has_b) {
        size_t end_a = a.end, end_b = b.end;

        n += same(&a, &b) && counts(c->node, &a);
        if (end_a <= end_b)
            has_a = next_chunk(&found, &a);
        if (end_b <= end_a)
            has_b = next_chunk(&there, &b);
    }
    return n;
}

static void write_ratio(const fl_op_ctx *c, int slot, double part, double whole)
{
    *(float *)fl_out(c, slot) = whole > 0 ? (float)(part / whole) : 0;
}

/* What is padding may be anything. */
static fl_status check_labels(const fl_op_ctx *c, int slot, fl_span rows)
{
    int64_t limit = fl_int(c, NUM_CHUNK_TYPES) * scheme_of(c->node)->n_tags;

    for (size_t i = rows.lo; i < rows.hi; i++) {
        int64_t v = fl_id_at(fl_in_t(c, slot), (int64_t)i);

        if (v < 0 || v > limit)
            FL_FAIL(FL_ERR_INVAL,
                    "%s: %" PRId64 " at place %zu is not in 0..%" PRId64
                    ", of which the last is no piece",
                    c->node->def->in[slot].name, v, i, limit);
    }
    return FL_OK;
}

static fl_status chunk_eval_run(fl_op_ctx *c)
{
    fl_runs r = fl_runs_of(fl_in_t(c, LABEL), fl_in_t(c, SEQ_LENGTH));
    int64_t found = 0, there = 0, correct = 0;

    FL_TRY(fl_runs_check(&r, c, SEQ_LENGTH));
    for (size_t i = 0; i < r.n; i++) {
        FL_TRY(check_labels(c, INFERENCE, fl_runs_at(&r, i)));
        FL_TRY(check_labels(c, LABEL, fl_runs_at(&r, i)));
        found += count_chunks(c, INFERENCE, fl_runs_at(&r, i));
        there += count_chunks(c, LABEL, fl_runs_at(&r, i));
        correct += count_correct(c, fl_runs_at(&r, i));
    }
    *(int64_t *)fl_out(c, N_INFER) = found;
    *(int64_t *)fl_out(c, N_LABEL) = there;
    *(int64_t *)fl_out(c, N_CORRECT) = correct;
    write_ratio(c, PRECISION, (double)correct, (double)found);
    write_ratio(c, RECALL, (double)correct, (double)there);
    write_ratio(c, F1, 2 * (double)correct, (double)(found + there));
    return FL_OK;
}

static const fl_op_case chunk_eval_cases[] = {
    { .in = { "i64[12,1] lod=[0,5,12] below=7",
              "i64[12,1] lod=[0,5,12] below=7" },
      .attrs = "{num_chunk_types=3, chunk_scheme=IOB}" },
    { .in = { "i64[9,1] lod=[0,9] below=9", "i64[9,1] lod=[0,9] below=9" },
      .attrs = "{num_chunk_types=2, chunk_scheme=IOBES, "
               "excluded_chunk_types=[1]}" },
    { .in = { "i64[2,5] below=5", "i64[2,5] below=5", "i64[2] is=[5,2]" },
      .attrs = "{num_chunk_types=2, chunk_scheme=IOE}" },
    { .in = { "i64[0,1] lod=[0,0]", "i64[0,1] lod=[0,0]" },
      .attrs = "{num_chunk_types=2, chunk_scheme=plain}" },
};

const fl_op fl_op_chunk_eval = {
    .name = "chunk_eval",
    .doc = "NumInferChunks and NumLabelChunks = the pieces in the sequences of "
           "Inference and of Label but those of excluded_chunk_types, "
           "NumCorrectChunks = those in both, and Precision, Recall and "
           "F1-Score. Labels are type * tags + tag as chunk_scheme, IOB, IOE, "
           "IOBES or plain, has them. Sequences have offsets, or are padded "
           "and have SeqLength",
    .in = { { "Inference", FL_SLOT_NO_GRAD },
            { "Label", FL_SLOT_NO_GRAD },
            { "SeqLength", FL_OP_SLOT_OPTIONAL | FL_SLOT_NO_GRAD } },
    .out = { { "Precision", FL_SLOT_NO_GRAD },
             { "Recall", FL_SLOT_NO_GRAD },
             { "F1-Score", FL_SLOT_NO_GRAD },
             { "NumInferChunks", FL_SLOT_NO_GRAD },
             { "NumLabelChunks", FL_SLOT_NO_GRAD },
             { "NumCorrectChunks", FL_SLOT_NO_GRAD } },
    .attrs = { { "num_chunk_types", FL_ATTR_INT, "1" },
               { "chunk_scheme", FL_ATTR_STRING, "IOB" },
               { "excluded_chunk_types", FL_ATTR_INTS, "[]" } },
    .infer = chunk_eval_infer,
    .run = chunk_eval_run,
    .cases = chunk_eval_cases,
    .n_cases = FL_LEN(chunk_eval_cases),
};
