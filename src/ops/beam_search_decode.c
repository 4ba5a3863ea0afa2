/* beam_search_decode.c - whole texts from the steps of a beam search.
 *
 * Ids and Scores have what beam_search kept in each step. A text is read from
 * its last id back: the entry of offsets that holds an id is the row of the step
 * before that it follows. Texts of a source come with the likeliest first; of
 * what follows an end nothing is written but the end.
 *
 * How long texts are decides the shape, so infer reads them, back to front, into
 * the workspace, and the run turns them round.
 */
#include <inttypes.h>

#include "ops/arrays.h"
#include "ops/beams.h"
#include "ops/helpers.h"
#include "ops/sequences.h"

enum { IDS, SCORES };
enum { SENTENCE_IDS, SENTENCE_SCORES };
enum { BEAM_SIZE, END_ID };

typedef struct word {
    int64_t id;
    double score;
} word;

/* A text that is being read: where it is in the step at hand. */
typedef struct text {
    word *words; /* the last one first */
    int64_t n_words, row;
} text;

/* In the workspace. Texts of source s are those of [of_source[s], of_source[s +
   1]); each has room for a word of every step. */
typedef struct reading {
    int64_t n_sources, n_steps, beam_size, n_texts;
    int64_t *of_source, *of_text;
    text *texts;
    word *words;
} reading;

/* --- reading back --------------------------------------------------------- */

/* The rows of a source in a step. */
static void rows_of(const fl_tensor *step, int64_t s, int64_t *lo, int64_t *hi)
{
    *lo = step->lod[FL_BEAM_ROWS][step->lod[FL_BEAM_SOURCES][s]];
    *hi = step->lod[FL_BEAM_ROWS][step->lod[FL_BEAM_SOURCES][s + 1]];
}

/* Texts of source s that end in this step. */
static fl_status begin_texts(reading *r, int64_t s, const fl_tensor *step)
{
    text *first = r->texts + s * r->beam_size;
    int64_t lo, hi;

    rows_of(step, s, &lo, &hi);
    if (hi - lo > r->beam_size)
        FL_FAIL(FL_ERR_INVAL,
                "op beam_search_decode: source %" PRId64 " has %" PRId64
                " texts, and beam_size is %" PRId64,
                s, hi - lo, r->beam_size);
    for (int64_t row = lo; row < hi; row++)
        first[row - lo].row = row;
    return FL_OK;
}

/* One word of each text of source s in a step, and the rows that they follow. */
static fl_status read_source(reading *r, int64_t s, const fl_tensor *ids,
                             const fl_tensor *scores, int64_t end_id)
{
    text *first = r->texts + s * r->beam_size;
    fl_seqs follow = { ids->lod[FL_BEAM_ROWS],
                       (size_t)ids->lod_len[FL_BEAM_ROWS] - 1 };
    bool begins = first->row < 0;

    if (begins)
        FL_TRY(begin_texts(r, s, ids));
    for (text *t = first; t < first + r->beam_size && t->row >= 0; t++) {
        if (t->row >= ids->shape.dim[0])
            FL_FAIL(FL_ERR_INVAL,
                    "op beam_search_decode: a text of source %" PRId64
                    " follows row %" PRId64 " of a step that has %" PRId64,
                    s, t->row, ids->shape.dim[0]);
        if (begins || fl_id_at(ids, t->row) != end_id)
            t->words[t->n_words++] =
                (word){ fl_id_at(ids, t->row), fl_float_at(scores, t->row) };
        t->row = (int64_t)fl_seqs_find(&follow, t->row);
    }
    return FL_OK;
}

static fl_status read_steps(const fl_infer *c, reading *r)
{
    const fl_array *ids = fl_array_of(fl_infer_in(c, IDS));
    const fl_array *scores = fl_array_of(fl_infer_in(c, SCORES));

    for (size_t step = (size_t)r->n_steps; step-- > 0;)
        for (int64_t s = 0; s < r->n_sources; s++)
            FL_TRY(read_source(r, s, fl_array_at(ids, step),
                               fl_array_at(scores, step), fl_int(c, END_ID)));
    return FL_OK;
}

/* The likeliest first; equals stay in their order. */
static void sort_texts(text *t, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        text moved = t[i];
        int64_t at = i;

        for (; at > 0 && t[at - 1].words->score < moved.words->score; at--)
            t[at] = t[at - 1];
        t[at] = moved;
    }
}

/* Moves the texts of all sources together, and writes their offsets. */
static void order_texts(reading *r)
{
    r->of_source[0] = r->of_text[0] = 0;
    for (int64_t s = 0; s < r->n_sources; s++) {
        text *first = r->texts + s * r->beam_size;
        int64_t n = 0;

        while (n < r->beam_size && first[n].n_words)
            n++;
        sort_texts(first, n);
        for (int64_t i = 0; i < n; i++, r->n_texts++) {
            r->of_text[r->n_texts + 1] =
                r->of_text[r->n_texts] + first[i].n_words;
            r->texts[r->n_texts] = first[i];
        }
        r->of_source[s + 1] = r->n_texts;
    }
}

/* --- infer ---------------------------------------------------------------- */

/* Every step has both levels of offsets, for as many sources. */
static fl_status check_steps(const fl_infer *c)
{
    const fl_array *ids = fl_array_of(fl_infer_in(c, IDS));
    const fl_array *scores = fl_array_of(fl_infer_in(c, SCORES));
    const fl_tensor *first = fl_array_at(ids, 0);

    if (!first || fl_array_len(ids) != fl_array_len(scores))
        FL_FAIL(FL_ERR_INVAL,
                "op beam_search_decode: Ids has %zu steps and Scores %zu; both "
                "need as many, and one at least",
                fl_array_len(ids), fl_array_len(scores));
    for (size_t i = 0; i < fl_array_len(ids); i++) {
        const fl_tensor *t = fl_array_at(ids, i), *s = fl_array_at(scores, i);

        if (!t || !s || t->n_lod != FL_BEAM_LEVELS ||
            t->lod_len[FL_BEAM_SOURCES] != first->lod_len[FL_BEAM_SOURCES])
            FL_FAIL(FL_ERR_INVAL,
                    "op beam_search_decode: step %zu has not the two levels of "
                    "offsets of beam_search, for the sources of step 0",
                    i);
        if (!fl_dtype_is_id(t->dtype) || !fl_dtype_is_float(s->dtype) ||
            fl_tensor_numel(t) != fl_tensor_numel(s))
            FL_FAIL(FL_ERR_INVAL,
                    "op beam_search_decode: step %zu has no score for each id",
                    i);
    }
    return FL_OK;
}

static fl_status make_room(const fl_infer *c, reading **out)
{
    const fl_array *ids = fl_array_of(fl_infer_in(c, IDS));
    int64_t n_sources = fl_array_at(ids, 0)->lod_len[FL_BEAM_SOURCES] - 1;
    int64_t n_steps = (int64_t)fl_array_len(ids);
    size_t n_texts = (size_t)(n_sources * fl_int(c, BEAM_SIZE));
    void *memory;
    reading *r;

    FL_TRY(fl_infer_workspace(
        c,
        sizeof(*r) + ((size_t)n_sources + n_texts + 2) * sizeof(int64_t) +
            n_texts * (sizeof(text) + (size_t)n_steps * sizeof(word)),
        &memory));
    r = memory;
    *r = (reading){ .n_sources = n_sources,
                    .n_steps = n_steps,
                    .beam_size = fl_int(c, BEAM_SIZE) };
    r->of_source = (int64_t *)(r + 1);
    r->of_text = r->of_source + n_sources + 1;
    r->texts = (text *)(r->of_text + n_texts + 1);
    r->words = (word *)(r->texts + n_texts);
    for (size_t i = 0; i < n_texts; i++)
        r->texts[i] =
            (text){ .words = r->words + i * (size_t)n_steps, .row = -1 };
    *out = r;
    return FL_OK;
}

static void infer_ragged(const fl_infer *c, int slot, fl_dtype dtype,
                         const reading *r)
{
    fl_tensor *t = fl_infer_out(c, slot);

    fl_infer_dense(c, slot, dtype, 1,
                   (int64_t[]){ r ? r->of_text[r->n_texts] : -1 });
    t->kind = FL_KIND_RAGGED;
    t->n_lod = FL_BEAM_LEVELS;
    t->lod[FL_BEAM_SOURCES] = r ? r->of_source : NULL;
    t->lod[FL_BEAM_ROWS] = r ? r->of_text : NULL;
    t->lod_len[FL_BEAM_SOURCES] = r ? r->n_sources + 1 : 0;
    t->lod_len[FL_BEAM_ROWS] = r ? r->n_texts + 1 : 0;
}

static fl_status beam_search_decode_infer(fl_infer *c)
{
    reading *r = NULL;

    FL_TRY(fl_infer_array(c, IDS));
    FL_TRY(fl_infer_array(c, SCORES));
    if (fl_int(c, BEAM_SIZE) < 1 || fl_int(c, BEAM_SIZE) > FL_BEAM_SIZE_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "op beam_search_decode: beam_size=%" PRId64 " is not in 1..%d",
                fl_int(c, BEAM_SIZE), FL_BEAM_SIZE_MAX);
    if (c->running) {
        FL_TRY(check_steps(c));
        FL_TRY(make_room(c, &r));
        FL_TRY(read_steps(c, r));
        order_texts(r);
    }
    infer_ragged(c, SENTENCE_IDS, FL_DTYPE_I64, r);
    infer_ragged(c, SENTENCE_SCORES, fl_infer_in(c, SCORES)->dtype, r);
    return FL_OK;
}

/* --- run ------------------------------------------------------------------ */

static fl_status beam_search_decode_run(fl_op_ctx *c)
{
    const reading *r = fl_op_workspace(c);
    int64_t at = 0;

    for (int64_t i = 0; i < r->n_texts; i++)
        for (int64_t k = r->texts[i].n_words; k-- > 0; at++) {
            fl_id_put(fl_out_t(c, SENTENCE_IDS), at, r->texts[i].words[k].id);
            fl_beam_put(fl_out_t(c, SENTENCE_SCORES), at,
                        r->texts[i].words[k].score);
        }
    return FL_OK;
}

static const fl_op_case beam_search_decode_cases[] = {
    { .in = { "i64[4,1] lod=[0,1,2] lod=[0,2,4] below=3 array",
              "f32[4,1] lod=[0,1,2] lod=[0,2,4] array" },
      .attrs = "{beam_size=2, end_id=1}" },
    { .in = { "i64[0,1] lod=[0,0] lod=[0] array",
              "f32[0,1] lod=[0,0] lod=[0] array" },
      .attrs = "{beam_size=2, end_id=1}" },
};

#define STEPS (FL_OP_SLOT_ARRAY | FL_SLOT_NO_GRAD)

const fl_op fl_op_beam_search_decode = {
    .name = "beam_search_decode",
    .doc = "SentenceIds = for each source its texts, of beam_size at most, the "
           "likeliest first: the ids that beam_search kept in the steps of Ids "
           "on the way to the last ones, with one end_id at the end; "
           "SentenceScores = their Scores",
    .in = { { "Ids", STEPS }, { "Scores", STEPS } },
    .out = { { "SentenceIds", FL_SLOT_NO_GRAD },
             { "SentenceScores", FL_SLOT_NO_GRAD } },
    .attrs = { { "beam_size", FL_ATTR_INT, "1" },
               { "end_id", FL_ATTR_INT, "0" } },
    .infer = beam_search_decode_infer,
    .run = beam_search_decode_run,
    .cases = beam_search_decode_cases,
    .n_cases = FL_LEN(beam_search_decode_cases),
};
