/* split_lod_tensor.c - rows, or sequences, parted by a mask, and put together
 * again. merge_lod_tensor is what split_lod_tensor's gradient does, and the
 * other way round. */
#include <inttypes.h>

#include "ops/helpers.h"

/* Rows of entry i: a sequence of level 0, or a row where there are no
   offsets. */
static fl_span rows_of(const fl_tensor *x, size_t i)
{
    size_t lo = i, hi = i + 1;

    for (int k = 0; k < x->n_lod; k++) {
        lo = (size_t)x->lod[k][lo];
        hi = (size_t)x->lod[k][hi];
    }
    return (fl_span){ lo, hi };
}

static int64_t count_entries(const fl_tensor *x)
{
    return x->n_lod ? x->lod_len[0] - 1 : x->shape.dim[0];
}

static size_t row_bytes(const fl_tensor *x)
{
    return (size_t)fl_shape_count(&x->shape, 1, x->shape.rank) *
           fl_dtype_bytes(x->dtype);
}

static bool holds(const fl_tensor *mask, size_t i)
{
    return ((const bool *)mask->data)[i];
}

static fl_status check_mask(const fl_infer *c, int slot)
{
    const fl_tensor *t = fl_infer_in(c, slot);
    char buf[FL_SLOT_TEXT_MAX];

    /* What is fed may be of another type than was declared. */
    if ((c->running && t->dtype != FL_DTYPE_BOOL) || t->shape.rank != 2 ||
        (t->shape.dim[1] >= 0 && t->shape.dim[1] != 1))
        FL_FAIL(FL_ERR_INVAL,
                "op %s: %s must be bool[-1,1], one for each row or sequence",
                c->node->def->name, fl_infer_text(c, slot, buf));
    return FL_OK;
}

/* --- offsets of a part ---------------------------------------------------- */

typedef struct part {
    const fl_tensor *x, *mask;
    bool side;
} part;

/* Offsets of level k of the entries on that side; gives how many. */
static int64_t part_offsets(const part *p, int k, int64_t *to)
{
    int64_t n = 1, end = 0;

    to[0] = 0;
    for (int64_t i = 0; i < count_entries(p->x); i++) {
        int64_t lo = i, hi = i + 1;

        if (holds(p->mask, (size_t)i) != p->side)
            continue;
        for (int up = 0; up < k; up++) {
            lo = p->x->lod[up][lo];
            hi = p->x->lod[up][hi];
        }
        for (; lo < hi; lo++) {
            end += p->x->lod[k][lo + 1] - p->x->lod[k][lo];
            to[n++] = end;
        }
    }
    return n;
}

static int64_t part_rows(const part *p)
{
    int64_t n = 0;

    for (int64_t i = 0; i < count_entries(p->x); i++) {
        fl_span s = rows_of(p->x, (size_t)i);

        if (holds(p->mask, (size_t)i) == p->side)
            n += (int64_t)(s.hi - s.lo);
    }
    return n;
}

static int64_t *infer_part(const part *p, fl_tensor *out, int64_t *memory)
{
    out->shape.dim[0] = part_rows(p);
    for (int k = 0; k < p->x->n_lod; k++) {
        out->lod[k] = memory;
        out->lod_len[k] = part_offsets(p, k, memory);
        memory += out->lod_len[k];
    }
    return memory;
}

/* --- moving rows ---------------------------------------------------------- */

/* Copies the rows of one side between the whole and the part. */
typedef enum direction { TO_PART, TO_WHOLE } direction;

static void move_rows(const part *p, direction way, char *whole, char *some)
{
    size_t row = row_bytes(p->x);

    for (int64_t i = 0; i < count_entries(p->x); i++) {
        fl_span s = rows_of(p->x, (size_t)i);
        size_t bytes = (s.hi - s.lo) * row;

        if (holds(p->mask, (size_t)i) != p->side || !bytes)
            continue;
        if (way == TO_PART)
            memcpy(some, whole + s.lo * row, bytes);
        else
            memcpy(whole + s.lo * row, some, bytes);
        some += bytes;
    }
}

/* --- split_lod_tensor ------------------------------------------------------ */

enum { SPLIT_X, SPLIT_MASK };
enum { OUT_TRUE, OUT_FALSE };
enum { LEVEL };

static fl_status check_level(const fl_infer *c)
{
    if (fl_int(c, LEVEL))
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "op %s: level %" PRId64 "; sequences are parted on level 0",
                c->node->def->name, fl_int(c, LEVEL));
    return FL_OK;
}

static fl_status split_infer(fl_infer *c)
{
    const fl_tensor *x = fl_infer_in(c, SPLIT_X);
    const fl_tensor *mask = fl_infer_in(c, SPLIT_MASK);
    void *memory = NULL;
    size_t n = 1;

    FL_TRY(check_mask(c, SPLIT_MASK));
    FL_TRY(check_level(c));
    for (int s = OUT_TRUE; s <= OUT_FALSE; s++) {
        fl_tensor_like(fl_infer_out(c, s), x);
        fl_infer_out(c, s)->shape.dim[0] = -1;
    }
    if (!c->running)
        return FL_OK;
    if (mask->shape.dim[0] != count_entries(x))
        FL_FAIL(FL_ERR_INVAL,
                "op split_lod_tensor: Mask has %" PRId64 " rows, and X %" PRId64
                " of what it parts",
                mask->shape.dim[0], count_entries(x));
    for (int k = 0; k < x->n_lod; k++)
        n += 2 * (size_t)x->lod_len[k] + 2;
    FL_TRY(fl_infer_workspace(c, n * sizeof(int64_t), &memory));
    memory =
        infer_part(&(part){ x, mask, true }, fl_infer_out(c, OUT_TRUE), memory);
    infer_part(&(part){ x, mask, false }, fl_infer_out(c, OUT_FALSE), memory);
    return FL_OK;
}

static fl_status split_run(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, SPLIT_X), *mask = fl_in_t(c, SPLIT_MASK);

    move_rows(&(part){ x, mask, true }, TO_PART, x->data, fl_out(c, OUT_TRUE));
    move_rows(&(part){ x, mask, false }, TO_PART, x->data,
              fl_out(c, OUT_FALSE));
    return FL_OK;
}

static fl_status split_back(fl_op_ctx *c)
{
    const fl_tensor *x = fl_in_t(c, SPLIT_X), *mask = fl_in_t(c, SPLIT_MASK);

    fl_din_zero(c, SPLIT_X);
    for (int s = OUT_TRUE; s <= OUT_FALSE; s++)
        if (fl_dout_t(c, s))
            move_rows(&(part){ x, mask, s == OUT_TRUE }, TO_WHOLE,
                      fl_din(c, SPLIT_X), fl_dout_t(c, s)->data);
    return FL_OK;
}

static const fl_op_case split_cases[] = {
    { .in = { "f32[3,2]", "bool[3,1] is=[1,0,1]" } },
    { .in = { "f32[7,2] lod=[0,2,2,7]", "bool[3,1] is=[0,1,1]" } },
    { .in = { "i64[3,1] below=9", "bool[3,1] is=[1,1,1]" } },
    { .in = { "f32[0,2]", "bool[0,1]" } },
};

const fl_op fl_op_split_lod_tensor = {
    .name = "split_lod_tensor",
    .doc = "OutTrue = the rows of X, or its sequences, for which Mask holds, "
           "OutFalse = the others",
    .in = { { "X", 0 }, { "Mask", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE } },
    .out = { { "OutTrue", 0 }, { "OutFalse", 0 } },
    .attrs = { { "level", FL_ATTR_INT, "0" } },
    .infer = split_infer,
    .run = split_run,
    .back = split_back,
    .back_uses = FL_USES_IN(SPLIT_MASK),
    .cases = split_cases,
    .n_cases = FL_LEN(split_cases),
};

/* --- merge_lod_tensor ------------------------------------------------------ */

enum { MERGE_X, MERGE_MASK, IN_TRUE, IN_FALSE };
enum { MERGE_OUT };

/* Rows of entry i of both sides, taken in turn as the mask says. */
typedef struct turns {
    const fl_tensor *side[2], *mask;
    size_t next[2];
} turns;

static turns turns_of(const fl_tensor *mask, const fl_tensor *no,
                      const fl_tensor *yes)
{
    return (turns){ .side = { no, yes }, .mask = mask };
}

static const fl_tensor *take_turn(turns *t, size_t i, fl_span *rows)
{
    int s = holds(t->mask, i);

    *rows = rows_of(t->side[s], t->next[s]++);
    return t->side[s];
}

static fl_status check_counts(const fl_infer *c)
{
    const fl_tensor *mask = fl_infer_in(c, MERGE_MASK);
    int64_t n_true = 0, n = mask->shape.dim[0];

    for (int64_t i = 0; i < n; i++)
        n_true += holds(mask, (size_t)i);
    if (count_entries(fl_infer_in(c, IN_TRUE)) < n_true ||
        count_entries(fl_infer_in(c, IN_FALSE)) < n - n_true)
        FL_FAIL(FL_ERR_INVAL,
                "op merge_lod_tensor: Mask has %" PRId64 " true and %" PRId64
                " false, InTrue %" PRId64 " and InFalse %" PRId64,
                n_true, n - n_true, count_entries(fl_infer_in(c, IN_TRUE)),
                count_entries(fl_infer_in(c, IN_FALSE)));
    return FL_OK;
}

/* Level k of the merged sequences. */
static int64_t merge_offsets(turns t, int k, int64_t *to)
{
    int64_t n = 1, end = 0;

    to[0] = 0;
    for (int64_t i = 0; i < t.mask->shape.dim[0]; i++) {
        int s = holds(t.mask, (size_t)i);
        const fl_tensor *x = t.side[s];
        int64_t lo = (int64_t)t.next[s]++, hi = lo + 1;

        for (int up = 0; up < k; up++) {
            lo = x->lod[up][lo];
            hi = x->lod[up][hi];
        }
        for (; lo < hi; lo++) {
            end += x->lod[k][lo + 1] - x->lod[k][lo];
            to[n++] = end;
        }
    }
    return n;
}

static int64_t merged_rows(turns t)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t.mask->shape.dim[0]; i++) {
        fl_span s;

        take_turn(&t, (size_t)i, &s);
        n += (int64_t)(s.hi - s.lo);
    }
    return n;
}

static fl_status merge_infer(fl_infer *c)
{
    const fl_tensor *yes = fl_infer_in(c, IN_TRUE);
    const fl_tensor *no = fl_infer_in(c, IN_FALSE);
    const fl_tensor *like = c->running && !fl_tensor_numel(yes) ? no : yes;
    turns t = turns_of(fl_infer_in(c, MERGE_MASK), no, yes);
    fl_tensor *out = fl_infer_out(c, MERGE_OUT);
    int64_t *memory = NULL;
    size_t n = 1;

    FL_TRY(check_mask(c, MERGE_MASK));
    FL_TRY(check_level(c));
    fl_tensor_like(out, like);
    out->shape.dim[0] = -1;
    if (!c->running)
        return FL_OK;
    FL_TRY(check_counts(c));
    out->n_lod = yes->n_lod == no->n_lod ? like->n_lod : 0;
    out->shape.dim[0] = merged_rows(t);
    for (int k = 0; k < out->n_lod; k++)
        n += (size_t)(yes->lod_len[k] + no->lod_len[k]) + 1;
    FL_TRY(fl_infer_workspace(c, n * sizeof(int64_t), (void **)&memory));
    for (int k = 0; k < out->n_lod; k++) {
        out->lod[k] = memory;
        out->lod_len[k] = merge_offsets(t, k, memory);
        memory += out->lod_len[k];
    }
    return FL_OK;
}

static fl_status merge_run(fl_op_ctx *c)
{
    turns t = turns_of(fl_in_t(c, MERGE_MASK), fl_in_t(c, IN_FALSE),
                       fl_in_t(c, IN_TRUE));
    size_t row = row_bytes(fl_out_t(c, MERGE_OUT));
    char *to = fl_out(c, MERGE_OUT);

    for (int64_t i = 0; i < t.mask->shape.dim[0]; i++) {
        fl_span s;
        const fl_tensor *from = take_turn(&t, (size_t)i, &s);
        size_t bytes = (s.hi - s.lo) * row;

        if (bytes)
            memcpy(to, (const char *)from->data + s.lo * row, bytes);
        to += bytes;
    }
    return FL_OK;
}

static fl_status merge_back(fl_op_ctx *c)
{
    turns t = turns_of(fl_in_t(c, MERGE_MASK), fl_in_t(c, IN_FALSE),
                       fl_in_t(c, IN_TRUE));
    const char *from = fl_dout(c, MERGE_OUT);
    size_t row = row_bytes(fl_dout_t(c, MERGE_OUT));

    fl_din_zero(c, IN_TRUE);
    fl_din_zero(c, IN_FALSE);
    for (int64_t i = 0; i < t.mask->shape.dim[0]; i++) {
        fl_span s;
        int slot =
            take_turn(&t, (size_t)i, &s) == t.side[1] ? IN_TRUE : IN_FALSE;
        size_t bytes = (s.hi - s.lo) * row;

        if (bytes && fl_din_t(c, slot))
            memcpy((char *)fl_din(c, slot) + s.lo * row, from, bytes);
        from += bytes;
    }
    return FL_OK;
}

static const fl_op_case merge_cases[] = {
    { .in = { "bool[3,1]", "bool[3,1] is=[1,0,1]", "f32[2,2]", "f32[1,2]" } },
    { .in = { "bool[3,1]", "bool[3,1] is=[0,1,1]", "f32[3,2] lod=[0,1,3]",
              "f32[2,2] lod=[0,2]" } },
    { .in = { "bool[0,1]", "bool[0,1]", "f32[0,2]", "f32[0,2]" } },
};

const fl_op fl_op_merge_lod_tensor = {
    .name = "merge_lod_tensor",
    .doc = "Out = the rows of InTrue, or its sequences, where Mask holds, and "
           "those of InFalse elsewhere, in order",
    .in = { { "X", FL_SLOT_NO_GRAD },
            { "Mask", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "InTrue", 0 },
            { "InFalse", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "level", FL_ATTR_INT, "0" } },
    .infer = merge_infer,
    .run = merge_run,
    .back = merge_back,
    .back_uses = FL_USES_IN(MERGE_MASK),
    .cases = merge_cases,
    .n_cases = FL_LEN(merge_cases),
};

const fl_op fl_op_merge_lod_tensor_infer = {
    .name = "merge_lod_tensor_infer",
    .doc = "merge_lod_tensor, for programs that are not trained",
    .in = { { "X", FL_SLOT_NO_GRAD },
            { "Mask", FL_SLOT_NO_GRAD | FL_OP_SLOT_VALUE },
            { "InTrue", 0 },
            { "InFalse", 0 } },
    .out = { { "Out", 0 } },
    .attrs = { { "level", FL_ATTR_INT, "0" } },
    .infer = merge_infer,
    .run = merge_run,
    .cases = merge_cases,
    .n_cases = FL_LEN(merge_cases),
};
