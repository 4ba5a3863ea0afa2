/* check_kit.h - a trained model, what is made of it to go online, and the two
 * compared. */
#ifndef FL_TESTS_CHECK_CHECK_KIT_H
#define FL_TESTS_CHECK_CHECK_KIT_H

#include "../serve/delta_kit.h"

#include "flotilla/consistency.h"

/* Results by their numbers. */
enum { NAMES, PROGRAM, PARAMETERS, ROWS, SCORES, PASSES, N_RESULTS };

#define CHECK_BATCHES 3

/* What a run of all checks has found. */
typedef struct check_found {
    fl_consistency_result all[N_RESULTS];
    char first[N_RESULTS][2048];
    bool holds;
} check_found;

static inline void check_keep(const fl_consistency *c, check_found *out)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < N_RESULTS; i++) {
        out->all[i].size = sizeof(out->all[i]);
        assert_true(fl_consistency_result_at(c, i, &out->all[i]));
        if (out->all[i].first)
            snprintf(out->first[i], sizeof(out->first[i]), "%s",
                     out->all[i].first);
    }
    out->holds = fl_consistency_holds(c);
}

/* Scores some batches, with labels or without. */
static inline fl_status check_score(fl_consistency *c, fl_model *online,
                                    size_t n_slots)
{
    fl_status st = FL_OK;
    fl_predictor *p;
    fl_tensor score;
    size_t n_feeds;
    kit_batch b;

    (void)fl_model_inputs(online, &n_feeds);
    must(fl_predictor_new(&p, online));
    for (uint32_t i = 0; i < CHECK_BATCHES && !st; i++) {
        fl_feed feeds[3];

        kit_batch_draw(&b, 500 + i);
        for (size_t k = 0; k < n_feeds; k++)
            for (size_t s = 0; s < 3; s++)
                if (!strcmp(b.feeds[s].name,
                            fl_model_inputs(online, &n_feeds)[k].name))
                    feeds[k] = b.feeds[s];
        must(fl_predictor_run(p, feeds, n_feeds, &score, 1));
        st = fl_consistency_add(c, b.feeds, n_slots, KIT_BATCH, &score, 1);
    }
    fl_predictor_free(p);
    return st;
}

/* All checks of a trained model against one that is open. */
static inline check_found check_model(const char *trained, fl_model *online,
                                      const fl_consistency_args *how)
{
    fl_consistency *c;
    check_found found;

    must(fl_consistency_open_with(&c, trained, online, how));
    must(fl_consistency_compare(c));
    must(check_score(c, online, 4));
    check_keep(c, &found);
    fl_consistency_close(c);
    return found;
}

static inline check_found check_dir(const char *trained, const char *online)
{
    fl_consistency_args how = FL_INIT(fl_consistency_args);
    check_found found;
    fl_model *m;

    must(fl_model_open(&m, online));
    found = check_model(trained, m, &how);
    fl_model_close(m);
    return found;
}

#define assert_same(found, i)                                                  \
    do {                                                                       \
        assert_string_equal((found)->first[i], "");                            \
        assert_int_equal((found)->all[i].different, 0);                        \
        assert_true((found)->all[i].compared > 0);                             \
    } while (0)

#define assert_found(found, i, words)                                          \
    do {                                                                       \
        assert_false((found)->holds);                                          \
        assert_true((found)->all[i].different > 0);                            \
        if (!strstr((found)->first[i], words))                                 \
            fail_msg("'%s' has no '%s'", (found)->first[i], words);            \
    } while (0)

static inline void assert_consistent(const check_found *found)
{
    for (size_t i = 0; i < N_RESULTS; i++)
        assert_same(found, i);
    assert_true(found->holds);
}

#endif
