/* test_sequences.c - operators over ragged rows: numbers of cases worked out
 * apart from the code, and what is said of values that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/status.h"
#include "flotilla/flotilla.h"
#include "../make.h"

#define FEEDS_MAX 4

typedef struct fixture {
    fl_ctx *c;
    fl_executor *e;
    fl_program *p;
    fl_feed feeds[FEEDS_MAX];
    size_t n_feeds;
    fl_tensor out;
} fixture;

static int make(void **state)
{
    static fixture f;

    f = (fixture){ .c = make_ctx() };
    f.e = make_executor(f.c);
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    fixture *f = *state;

    fl_program_free(f->p);
    fl_executor_free(f->e);
    fl_ctx_free(f->c);
    return 0;
}

static void feed(fixture *f, const char *name, fl_dtype dtype, const void *data,
                 fl_shape shape)
{
    f->feeds[f->n_feeds++] =
        (fl_feed){ name, fl_tensor_of(dtype, data, shape.rank, shape.dim) };
}

/* Makes the last feed ragged. */
static void cut(fixture *f, const int64_t *offsets, int64_t n_seq)
{
    fl_tensor *t = &f->feeds[f->n_feeds - 1].value;

    *t = fl_tensor_ragged(t->dtype, t->data, t->shape.rank, t->shape.dim,
                          offsets, n_seq);
}

#define SHAPE2(a, b) ((fl_shape){ .rank = 2, .dim = { a, b } })
#define FLOATS(...) ((float[]){ __VA_ARGS__ })
#define INTS(...) ((int64_t[]){ __VA_ARGS__ })

static fl_status run(fixture *f, const char *text)
{
    const char *fetch = "y";
    fl_run_args a =
        FL_INIT(fl_run_args, .feeds = f->feeds, .n_feeds = f->n_feeds,
                .fetches = &fetch, .n_fetches = 1, .out = &f->out);

    fl_program_free(f->p);
    f->p = NULL;
    FL_TRY(fl_program_from_text(&f->p, f->c, text));
    return fl_run(f->e, f->p, &a);
}

static void expect(fixture *f, const char *text, const float *want, int64_t n)
{
    if (run(f, text))
        fail_msg("%s", fl_last_error());
    assert_int_equal(fl_tensor_numel(&f->out), n);
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(((float *)f->out.data)[i], want[i], 1e-6);
}

static void refuse(fixture *f, const char *text, const char *words)
{
    assert_int_not_equal(run(f, text), FL_OK);
    if (!strstr(fl_last_error(), words))
        fail_msg("expected '%s' in '%s'", words, fl_last_error());
}

/* --- numbers -------------------------------------------------------------- */

static void a_unit_of_gru_has_the_numbers_of_its_formula(void **state)
{
    fixture *f = *state;

    feed(f, "x", FL_DTYPE_F32, FLOATS(.1f, .2f, .3f, -.5f, .4f, 1),
         SHAPE2(2, 3));
    feed(f, "p", FL_DTYPE_F32, FLOATS(.5f, -.25f), SHAPE2(2, 1));
    feed(f, "w", FL_DTYPE_F32, FLOATS(.3f, -.2f, .7f), SHAPE2(1, 3));
    feed(f, "b", FL_DTYPE_F32, FLOATS(.05f, .1f, -.1f), SHAPE2(1, 3));
    expect(f,
           "var x : f32[-1,3] data\nvar p : f32[-1,1] data\n"
           "var w : f32[1,3] data\nvar b : f32[1,3] data\n"
           "op gru_unit (Input=x, HiddenPrev=p, Weight=w, Bias=b) -> "
           "(Hidden=y)\n",
           FLOATS(.4273120f, .0874358f), 2);
}

static void windows_reach_into_rows_that_are_learned(void **state)
{
    fixture *f = *state;

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3, 4, 5), SHAPE2(5, 1));
    cut(f, INTS(0, 2, 5), 2);
    feed(f, "pad", FL_DTYPE_F32, FLOATS(10, 20, 30, 40), SHAPE2(4, 1));
    feed(f, "w", FL_DTYPE_F32, FLOATS(1, 100, 10000, 1, 1), SHAPE2(5, 1));
    expect(f,
           "var x : f32[-1,1] lod=1 data\nvar pad : f32[4,1] data\n"
           "var w : f32[5,1] data\n"
           "op sequence_conv (X=x, PaddingData=pad, Filter=w) -> (Out=y) "
           "{contextLength=5, contextStart=-2, paddingTrainable=true}\n",
           FLOATS(12042, 20190, 32019, 40355, 50473), 5);
}

static void pieces_of_sequences_are_cut_out(void **state)
{
    fixture *f = *state;

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3, 4, 5, 6, 7, 8), SHAPE2(8, 1));
    cut(f, INTS(0, 3, 8), 2);
    feed(f, "o", FL_DTYPE_I64, INTS(1, 2), SHAPE2(2, 1));
    feed(f, "n", FL_DTYPE_I64, INTS(2, 1), SHAPE2(2, 1));
    expect(f,
           "var x : f32[-1,1] lod=1 data\nvar o : i64[-1,1] data\n"
           "var n : i64[-1,1] data\n"
           "op sequence_slice (X=x, Offset=o, Length=n) -> (Out=y)\n",
           FLOATS(2, 3, 6), 3);
    assert_memory_equal(f->out.lod[0], INTS(0, 2, 3), 3 * sizeof(int64_t));
}

static void wider_rows_keep_their_sequences(void **state)
{
    fixture *f = *state;

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3, 4, 5, 6, 7, 8), SHAPE2(4, 2));
    cut(f, INTS(0, 1, 4), 2);
    expect(f,
           "var x : f32[-1,2] lod=1 data\n"
           "op sequence_reshape (X=x) -> (Out=y) {new_dim=1}\n",
           FLOATS(1, 2, 3, 4, 5, 6, 7, 8), 8);
    assert_memory_equal(f->out.lod[0], INTS(0, 2, 8), 3 * sizeof(int64_t));
    refuse(f,
           "var x : f32[-1,2] lod=1 data\n"
           "op sequence_reshape (X=x) -> (Out=y) {new_dim=4}\n",
           "sequence 0 of X (x: f32[4,2]) has 2 numbers, which is no multiple "
           "of new_dim=4");
}

/* --- what does not fit ---------------------------------------------------- */

static void a_piece_outside_of_its_sequence_is_refused(void **state)
{
    fixture *f = *state;
    const char *text =
        "var x : f32[-1,1] lod=1 data\nvar o : i64[-1,1] data\n"
        "var n : i64[-1,1] data\n"
        "op sequence_slice (X=x, Offset=o, Length=n) -> (Out=y)\n";

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3), SHAPE2(3, 1));
    cut(f, INTS(0, 2, 3), 2);
    feed(f, "o", FL_DTYPE_I64, INTS(0, 1), SHAPE2(2, 1));
    feed(f, "n", FL_DTYPE_I64, INTS(2, 1), SHAPE2(2, 1));
    refuse(f, text,
           "Offset=1 and Length=1 do not lie within the 1 rows of sequence 1");
    f->feeds[2].value = fl_tensor_of(FL_DTYPE_I64, INTS(2), 2, INTS(1, 1));
    refuse(f, text, "one number for each of the 2 sequences");
}

static void a_length_beyond_its_line_is_refused(void **state)
{
    fixture *f = *state;
    const char *text = "var x : f32[-1,2] data\nvar n : i64[-1] data\n"
                       "op sequence_unpad (X=x, Length=n) -> (Out=y)\n";

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3, 4), SHAPE2(2, 2));
    feed(f, "n", FL_DTYPE_I64, INTS(2, 3), (fl_shape){ 1, { 2 } });
    refuse(f, text, "says 3 at place 1, but a line of X (x: f32[2,2]) has 2");
    f->feeds[1].value = fl_tensor_of(FL_DTYPE_I64, INTS(1), 1, INTS(1));
    refuse(f, text, "must have one number per line");
}

static void a_sequence_longer_than_its_line_is_refused(void **state)
{
    fixture *f = *state;
    const char *text = "var x : f32[-1,1] lod=1 data\nvar v : f32[-1] data\n"
                       "op sequence_pad (X=x, PadValue=v) -> (Out=y, Length=n) "
                       "{padded_length=2}\n";

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3), SHAPE2(3, 1));
    cut(f, INTS(0, 3), 1);
    feed(f, "v", FL_DTYPE_F32, FLOATS(0, 0), (fl_shape){ 1, { 1 } });
    refuse(f, text, "a sequence of 3 rows, more than padded_length=2");
    f->feeds[1].value = fl_tensor_of(FL_DTYPE_F32, FLOATS(0, 0), 1, INTS(2));
    refuse(f, text, "must be one number or one row");
}

static void counts_of_sequences_that_differ_are_refused(void **state)
{
    fixture *f = *state;

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3), SHAPE2(3, 1));
    cut(f, INTS(0, 2, 3), 2);
    feed(f, "z", FL_DTYPE_F32, FLOATS(1, 2, 3), SHAPE2(3, 1));
    cut(f, INTS(0, 1, 2, 3), 3);
    refuse(f,
           "var x : f32[-1,1] lod=1 data\nvar z : f32[-1,1] lod=1 data\n"
           "op sequence_expand (X=x, Y=z) -> (Out=y)\n",
           "has 2 sequences, but Y (z: f32[3,1]) has 3 sequences at level 0");
    refuse(f,
           "var x : f32[-1,1] lod=1 data\nvar z : f32[-1,1] lod=1 data\n"
           "op sequence_expand_as (X=z, Y=x) -> (Out=y)\n",
           "has 3 rows, but Y (x: f32[3,1]) has 2 sequences");
    refuse(f,
           "var x : f32[-1,1] lod=1 data\nvar z : f32[-1,1] lod=1 data\n"
           "op sequence_concat (X=[x,z]) -> (Out=y)\n",
           "has 2 sequences, but X[1] (z: f32[3,1]) has 3");
}

static void first_rows_of_another_number_are_refused(void **state)
{
    fixture *f = *state;

    feed(f, "x", FL_DTYPE_F32, FLOATS(1, 2, 3), SHAPE2(1, 3));
    cut(f, INTS(0, 1), 1);
    feed(f, "h", FL_DTYPE_F32, FLOATS(1, 2), SHAPE2(2, 1));
    feed(f, "w", FL_DTYPE_F32, FLOATS(1, 2, 3), SHAPE2(1, 3));
    refuse(f,
           "var x : f32[-1,3] lod=1 data\nvar h : f32[-1,1] data\n"
           "var w : f32[1,3] data\n"
           "op gru (Input=x, H0=h, Weight=w) -> (Hidden=y)\n",
           "H0 (h: f32[2,1]) must be [1,1]");
}

/* Programs that do not come to run. */
static const struct {
    const char *text, *words;
} bad[] = {
    { "var x : f32[-1,2] lod=1 data\nvar w : f32[4,3] data\n"
      "op sequence_conv (X=x, Filter=w) -> (Out=y) {contextLength=0}\n",
      "contextLength=0 is not at least 1" },
    { "var x : f32[-1,2] lod=1 data\nvar w : f32[4,3] data\n"
      "op sequence_conv (X=x, Filter=w) -> (Out=y) {contextLength=2, "
      "contextStride=2}\n",
      "contextStride=2; it can only be 1" },
    { "var x : f32[-1,2] lod=1 data\nvar w : f32[5,3] data\n"
      "op sequence_conv (X=x, Filter=w) -> (Out=y) {contextLength=2}\n",
      "Filter (w: f32[5,3]) must have contextLength=2 times" },
    { "var x : f32[-1,2] lod=1 data\nvar w : f64[4,3] data\n"
      "op sequence_conv (X=x, Filter=w) -> (Out=y) {contextLength=2}\n",
      "have different types" },
    { "var x : f32[-1,2] lod=1 data\nvar w : f32[4,3] data\n"
      "op sequence_conv (X=x, Filter=w) -> (Out=y) {contextLength=2, "
      "paddingTrainable=true}\n",
      "PaddingData is left out, paddingTrainable is true" },
    { "var x : f32[-1,3] lod=2 data\nvar w : f32[1,3] data\n"
      "op gru (Input=x, Weight=w) -> (Hidden=y)\n",
      "has 2 levels of offsets, it must have one" },
    { "var x : f32[-1,3] lod=1 data\nvar w : f32[2,3] data\n"
      "op gru (Input=x, Weight=w) -> (Hidden=y)\n",
      "Weight (w: f32[2,3]) must be [D,3D]" },
    { "var x : f32[-1,6] lod=1 data\nvar w : f32[1,3] data\n"
      "op gru (Input=x, Weight=w) -> (Hidden=y)\n",
      "Input (x: f32[-1,6]) must be [-1,3]" },
    { "var x : f32[-1,3] lod=1 data\nvar w : f32[1,3] data\n"
      "op gru (Input=x, Weight=w) -> (Hidden=y) {activation=softmax}\n",
      "activation is \"softmax\"; there are identity" },
    { "var x : i64[-1] data\n"
      "op sequence_mask (X=x) -> (Y=y) {maxlen=-2}\n",
      "maxlen=-2 is neither" },
    { "var x : f32[-1] data\nop sequence_mask (X=x) -> (Y=y)\n",
      "must be i64, u64 or i32" },
    { "var x : i64[-1] data\n"
      "op sequence_mask (X=x) -> (Y=y) {out_dtype=f16}\n",
      "out_dtype float16 is not possible" },
    { "var x : i64[-1,1] lod=1 data\n"
      "op sequence_enumerate (X=x) -> (Out=y) {win_size=0}\n",
      "win_size=0 is not at least 1" },
    { "var x : i64[-1,1] lod=1 data\n"
      "op sequence_softmax (X=x) -> (Out=y)\n",
      "must be f32 or f64" },
};

static void attributes_and_types_are_checked_while_building(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < FL_LEN(bad); i++)
        refuse(f, bad[i].text, bad[i].words);
}

static void a_gradient_without_what_it_needs_is_refused(void **state)
{
    fixture *f = *state;

    refuse(f,
           "var x : f32[-1,3] lod=1 data\nvar w : f32[1,3] data\n"
           "var g : f32[-1,1] lod=1 data\n"
           "op gru (Input=x, Weight=w) -> (Hidden=h)\n"
           "op gru_grad (Input=x, Weight=w, Hidden@GRAD=g) -> (Input@GRAD=y) "
           "@backward\n",
           "BatchGate of gru was left out");
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_unit_of_gru_has_the_numbers_of_its_formula),
        WITH(windows_reach_into_rows_that_are_learned),
        WITH(pieces_of_sequences_are_cut_out),
        WITH(wider_rows_keep_their_sequences),
        WITH(a_piece_outside_of_its_sequence_is_refused),
        WITH(a_length_beyond_its_line_is_refused),
        WITH(a_sequence_longer_than_its_line_is_refused),
        WITH(counts_of_sequences_that_differ_are_refused),
        WITH(first_rows_of_another_number_are_refused),
        WITH(attributes_and_types_are_checked_while_building),
        WITH(a_gradient_without_what_it_needs_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
