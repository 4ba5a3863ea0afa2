/* run_lr.c - learning-rate schedules: the rate of every run.
 *
 * A run counts as a step when it trains something, so one number is trained
 * with the rate. */
#include "compare.h"
#include "session.h"
#include "../make.h"

#include <string.h>

#define TOLERANCE 1e-6 /* of the number itself */
#define BOUNDARIES_MAX 64

static bool flag(const cJSON *h, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItem(h, name));
}

#define PERIODS(NAME)                                                          \
    static fl_var *make_##NAME(session *s, const cJSON *h)                     \
    {                                                                          \
        return fl_layers_##NAME(s->ctx, json_number(h, "learning_rate", 0),    \
                                (int64_t)json_number(h, "decay_steps", 0),     \
                                json_number(h, "decay_rate", 0),               \
                                flag(h, "staircase"));                         \
    }
PERIODS(exponential_decay)
PERIODS(natural_exp_decay)
PERIODS(inverse_time_decay)

static fl_var *make_noam(session *s, const cJSON *h)
{
    return fl_layers_noam_decay(s->ctx, json_number(h, "d_model", 0),
                                json_number(h, "warmup_steps", 0),
                                json_number(h, "learning_rate", 1));
}

static fl_var *make_polynomial(session *s, const cJSON *h)
{
    return fl_layers_polynomial_decay(
        s->ctx, json_number(h, "learning_rate", 0),
        (int64_t)json_number(h, "decay_steps", 0),
        json_number(h, "end_learning_rate", 0.0001), json_number(h, "power", 1),
        flag(h, "cycle"));
}

static fl_var *make_cosine(session *s, const cJSON *h)
{
    return fl_layers_cosine_decay(s->ctx, json_number(h, "learning_rate", 0),
                                  (int64_t)json_number(h, "step_each_epoch", 0),
                                  (int64_t)json_number(h, "epochs", 0));
}

static fl_var *make_piecewise(session *s, const cJSON *h)
{
    const cJSON *boundaries = cJSON_GetObjectItem(h, "boundaries");
    const cJSON *values = cJSON_GetObjectItem(h, "values");
    int n = cJSON_GetArraySize(boundaries);
    int64_t b[BOUNDARIES_MAX];
    double v[BOUNDARIES_MAX + 1];

    if (n > BOUNDARIES_MAX || cJSON_GetArraySize(values) != n + 1)
        return NULL;
    for (int i = 0; i < n; i++)
        b[i] = (int64_t)cJSON_GetArrayItem(boundaries, i)->valuedouble;
    for (int i = 0; i <= n; i++)
        v[i] = cJSON_GetArrayItem(values, i)->valuedouble;
    return fl_layers_piecewise_decay(s->ctx, b, v, (size_t)n);
}

static fl_var *make_constant(session *s, const cJSON *h)
{
    return fl_layers_constant_lr(s->ctx, json_number(h, "learning_rate", 0));
}

static fl_var *make_warmup(session *s, const cJSON *h);

static const struct {
    const char *name;
    fl_var *(*make)(session *s, const cJSON *hyper);
} schedules[] = {
    { "const", make_constant },
    { "exponential_decay", make_exponential_decay },
    { "natural_exp_decay", make_natural_exp_decay },
    { "inverse_time_decay", make_inverse_time_decay },
    { "noam_decay", make_noam },
    { "polynomial_decay", make_polynomial },
    { "cosine_decay", make_cosine },
    { "piecewise_decay", make_piecewise },
    { "warmup", make_warmup },
};

static fl_var *make_schedule(session *s, const char *name, const cJSON *hyper)
{
    fl_var *v;

    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++) {
        if (strcmp(schedules[i].name, name))
            continue;
        v = schedules[i].make(s, hyper);
        if (!v && !s->c->n_failures)
            case_fail(s->c, "schedule %s: %s", name, fl_last_error());
        return v;
    }
    case_fail(s->c, "no schedule %s", name);
    return NULL;
}

static fl_var *make_warmup(session *s, const cJSON *h)
{
    const char *inner = cJSON_GetStringValue(cJSON_GetObjectItem(h, "inner"));
    fl_var *rate;

    if (!inner)
        return NULL;
    rate = make_schedule(s, inner, cJSON_GetObjectItem(h, "inner_args"));
    if (!rate)
        return NULL;
    return fl_layers_linear_lr_warmup(
        rate, (int64_t)json_number(h, "warmup_steps", 0),
        json_number(h, "start_lr", 0), json_number(h, "end_lr", 0));
}

/* Relative errors: rates are far below 1. */
static void compare_rates(golden_case *c, const double *got,
                          const st_tensor *want)
{
    double *one = pool_alloc(&c->pool, (size_t)want->numel * sizeof(double));
    double *share = pool_alloc(&c->pool, (size_t)want->numel * sizeof(double));

    for (int64_t i = 0; i < want->numel; i++) {
        double w = st_at(want, i);

        one[i] = w != 0 ? 1 : 0;
        share[i] = w != 0 ? got[i] / w : got[i];
    }
    compare_numbers(c, "lr / want", share, one, want->numel, TOLERANCE);
}

static void run_steps(session *s, const st_tensor *want)
{
    double *got = pool_alloc(&s->c->pool, (size_t)want->numel * sizeof(double));

    for (int64_t i = 0; i < want->numel; i++) {
        if (!session_run(s))
            return;
        got[i] = number_at(s->fetched[0].dtype, s->fetched[0].data, 0);
    }
    compare_rates(s->c, got, want);
}

static bool add_training(session *s, fl_var *rate)
{
    fl_optimizer *opt = make_optimizer(s->ctx, "sgd", NULL);
    fl_param_grad pg = {
        fl_program_var(s->program, "w"),
        fl_program_var(s->program, "w@GRAD"),
    };

    if (opt)
        fl_optimizer_set_lr(opt, rate);
    if (!opt || fl_apply_gradients(opt, &pg, 1)) {
        case_fail(s->c, "%s", fl_last_error());
        return false;
    }
    return true;
}

static void run_case(session *s, const cJSON *hyper, const st_tensor *want)
{
    const char *name = st_meta_find(&s->c->file, "schedule");
    const int64_t one = 1;
    float number = 0;
    fl_tensor w = fl_tensor_of(FL_DTYPE_F32, &number, 1, &one);
    fl_var *rate;

    text_addf(&s->lines, "param w : f32[1] trainable\n");
    session_feed(s, "w@GRAD", &w);
    if (!session_build_main(s))
        return;
    rate = make_schedule(s, name, hyper);
    if (!rate || !add_training(s, rate))
        return;
    session_fetch(s, pool_strdup(&s->c->pool, fl_var_name(rate)));
    if (session_startup(s) && session_set(s, "w", &w))
        run_steps(s, want);
}

void run_lr(golden_case *c)
{
    const st_tensor *want = st_find(&c->file, "lr");
    cJSON *hyper = case_json(c, "hyper");
    session s;

    if (!hyper)
        return;
    if (!want)
        case_fail(c, "the case has no tensor lr");
    else if (session_open(&s, c)) {
        run_case(&s, hyper, want);
        session_close(&s);
    }
    cJSON_Delete(hyper);
}
