/* test_predict_dataset.c - all records of a dataset are scored in one call. */
#include "api.h"
#include "../folder.h"
#include "../make.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "flotilla/predict.h"

#define ROWS 1000
#define WEIGHT 3.0F

static char folder[FOLDER_BYTES];
static char model_dir[FOLDER_BYTES + 16], data_path[FOLDER_BYTES + 16];

/* score = 3 x, beside a label that the model does not take. */
static void save_model(void)
{
    fl_ctx *c = make_ctx();
    fl_executor *e = make_executor(c);
    fl_var *y = fl_layers_fc(data2(c, "x", 1), 1, .param.init = "constant(3)",
                             .no_bias = true);
    const char *target = fl_var_name(y);

    must(fl_run(e, fl_default_startup_program(c), NULL));
    must(fl_save_inference_model(e, model_dir, .targets = &target,
                                 .n_targets = 1));
    fl_executor_free(e);
    fl_ctx_free(c);
}

static int set_up(void **state)
{
    FILE *f;

    (void)state;
    fl_log_set_level(FL_LOG_ERROR);
    if (!folder_make(folder, "predict"))
        return -1;
    snprintf(model_dir, sizeof(model_dir), "%s/model", folder);
    snprintf(data_path, sizeof(data_path), "%s/data", folder);
    f = fopen(data_path, "w");
    if (!f)
        return -1;
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "1 %d 1 %d\n", i % 2, i);
    save_model();
    return fclose(f);
}

static int tear_down(void **state)
{
    char line[2 * FOLDER_BYTES];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", folder);
    return system(line);
}

/* --- a model and data -------------------------------------------------------- */

typedef struct both {
    fl_ctx *c;
    fl_model *m;
    fl_dataset *d;
} both;

static both open_both(const char *kind, const char *x)
{
    const fl_slot slots[] = { { "label", FL_SLOT_IDS, 1, 0 },
                              { x, FL_SLOT_FLOATS, 1, 0 } };
    const char *path = data_path;
    both b = { .c = make_ctx() };

    assert_ok(fl_model_open(&b.m, model_dir));
    assert_ok(fl_dataset_new(&b.d, b.c, kind));
    assert_ok(fl_dataset_set_slots(b.d, slots, 2));
    assert_ok(fl_dataset_set_filelist(b.d, &path, 1));
    fl_dataset_set_batch_size(b.d, 7);
    return b;
}

static void close_both(both *b)
{
    fl_dataset_free(b->d);
    fl_model_close(b->m);
    fl_ctx_free(b->c);
}

/* --- tests ------------------------------------------------------------------- */

static void scores_come_in_the_order_of_the_records(void **state)
{
    both b = open_both("QueueDataset", "x");

    (void)state;
    for (int n_threads = 0; n_threads <= 5; n_threads++) {
        float *scores = NULL;
        size_t n = 0;

        assert_ok(fl_predict_dataset(b.m, b.d, .n_threads = n_threads,
                                     .scores = &scores, .n_scores = &n));
        assert_int_equal(n, ROWS);
        for (size_t i = 0; i < n; i++)
            assert_float_equal(scores[i], WEIGHT * (float)i, 0);
        fl_scores_free(scores);
    }
    close_both(&b);
}

static void a_dataset_in_memory_is_scored_as_well(void **state)
{
    both b = open_both("InMemoryDataset", "x");
    float *scores = NULL;
    double sum = 0;
    size_t n = 0;

    (void)state;
    assert_ok(fl_dataset_load_into_memory(b.d));
    assert_ok(fl_predict_dataset(b.m, b.d, .n_threads = 3, .scores = &scores,
                                 .n_scores = &n));
    assert_int_equal(n, ROWS);
    for (size_t i = 0; i < n; i++)
        sum += scores[i];
    assert_float_equal(sum, WEIGHT * ROWS * (ROWS - 1) / 2, 1);
    fl_scores_free(scores);
    close_both(&b);
}

typedef struct seen {
    uint64_t next;
    size_t rows;
    int64_t labels;
    atomic_int made, released;
    uint64_t stop_at; /* a batch that is refused */
} seen;

static fl_status note_room(void *arg, const fl_scored *s)
{
    seen *all = arg;

    atomic_fetch_add(&all->made, 1);
    if (!*s->room)
        *s->room = &all->released;
    return FL_OK;
}

static void count_release(void *room)
{
    atomic_fetch_add((atomic_int *)room, 1);
}

static fl_status take(void *arg, const fl_scored *s)
{
    seen *all = arg;

    if (all->stop_at && s->number == all->stop_at)
        return FL_ERR_IO;
    assert_int_equal(s->number, all->next);
    assert_int_equal(s->n_slots, 2);
    assert_int_equal(s->n_outputs, 1);
    all->next++;
    all->rows += s->n_rows;
    for (size_t i = 0; i < s->n_rows; i++)
        all->labels += ((const int64_t *)s->slots[0].value.data)[i];
    return FL_OK;
}

static void batches_are_told_in_order_with_what_was_not_fed(void **state)
{
    both b = open_both("QueueDataset", "x");
    seen all = { 0 };

    (void)state;
    assert_ok(fl_predict_dataset(b.m, b.d, .n_threads = 4, .take = take,
                                 .make = note_room, .release = count_release,
                                 .arg = &all));
    assert_int_equal(all.rows, ROWS);
    assert_int_equal(all.labels, ROWS / 2);
    assert_int_equal(all.next, (ROWS + 6) / 7);
    assert_int_equal(all.made, all.next);
    assert_in_range(all.released, 1, 4);
    close_both(&b);
}

static void shares_are_all_of_it_together(void **state)
{
    both b = open_both("QueueDataset", "x");
    double sum = 0;
    size_t rows = 0;

    (void)state;
    for (size_t share = 0; share < 3; share++) {
        float *scores = NULL;
        size_t n = 0;

        assert_ok(fl_predict_dataset(b.m, b.d, .n_threads = 2, .share = share,
                                     .n_shares = 3, .scores = &scores,
                                     .n_scores = &n));
        for (size_t i = 0; i < n; i++)
            sum += scores[i];
        rows += n;
        fl_scores_free(scores);
    }
    assert_int_equal(rows, ROWS);
    assert_float_equal(sum, WEIGHT * ROWS * (ROWS - 1) / 2, 1);
    close_both(&b);
}

static void what_is_wrong_ends_the_pass_and_the_next_one_is_whole(void **state)
{
    both b = open_both("QueueDataset", "x"),
         other = open_both("QueueDataset", "z");
    float *scores = NULL;
    seen all = { .stop_at = 5 };
    size_t n = 0;

    (void)state;
    assert_int_equal(
        fl_predict_dataset(b.m, b.d, .n_threads = 3, .take = take, .arg = &all),
        FL_ERR_IO);
    assert_int_equal(all.next, 5);
    assert_int_equal(fl_predict_dataset(other.m, other.d, .take = take),
                     FL_ERR_NOTFOUND);
    assert_said("the model's input x is no slot of the dataset");
    assert_int_equal(fl_predict_dataset(b.m, b.d, .n_threads = -1),
                     FL_ERR_INVAL);
    assert_int_equal(fl_predict_dataset(b.m, b.d, .scores = &scores),
                     FL_ERR_INVAL);
    assert_said("scores and n_scores");
    assert_int_equal(fl_predict_dataset(b.m, b.d, .share = 2, .n_shares = 2),
                     FL_ERR_INVAL);
    assert_null(scores);
    assert_ok(fl_predict_dataset(b.m, b.d, .scores = &scores, .n_scores = &n));
    assert_int_equal(n, ROWS);
    fl_scores_free(scores);
    close_both(&other);
    close_both(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_come_in_the_order_of_the_records),
        cmocka_unit_test(a_dataset_in_memory_is_scored_as_well),
        cmocka_unit_test(batches_are_told_in_order_with_what_was_not_fed),
        cmocka_unit_test(shares_are_all_of_it_together),
        cmocka_unit_test(what_is_wrong_ends_the_pass_and_the_next_one_is_whole),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
