/* strategy_config.c - the groups of a strategy as structs.
 *
 * A struct is written as words and set by them, so that the two ways cannot
 * come apart. */
#include <inttypes.h>

#include "base/args.h"
#include "fleet/strategy.h"

static const char *const reduce_names[] = { "all_reduce", "reduce" };
static const char *const scale_names[] = { "coeff_num_device", "one",
                                           "customized" };
static const char *const split_names[] = { "hash", "round_robin" };
static const char *const wire_names[] = { "f32", "bf16" };
static const char *const weight_names[] = { "mean", "samples", "sum" };

static size_t choice(const char *text, const char *const *names, size_t n)
{
    size_t i = 0;

    while (i < n && strcmp(names[i], text))
        i++;
    FL_ASSERT(i < n);
    return i;
}

#define CHOICE(s, name, names)                                                 \
    choice(fl_strategy_value_of(s, name).s, names, FL_LEN(names))

static int int_of(fl_strategy *s, const char *name)
{
    return (int)fl_strategy_value_of(s, name).i;
}

static bool bool_of(fl_strategy *s, const char *name)
{
    return fl_strategy_value_of(s, name).b;
}

static const char *yes_no(bool b)
{
    return b ? "true" : "false";
}

static fl_status set_and_free(fl_strategy *s, fl_str *words)
{
    fl_status st = fl_strategy_set_fields(s, fl_str_text(words));

    fl_str_release(words);
    return st;
}

/* --- program_config ------------------------------------------------------- */

/* Strategies of kind a_sync have k_steps for it, which is 0 when they exchange
   nothing. */
static const char *push_nums_name(const fl_strategy *s)
{
    return s->kinds == FL_STRATEGY_A_SYNC ? "k_steps"
                                          : "geo_sgd_need_push_nums";
}

fl_status fl_strategy_get_program_config(fl_strategy *s, fl_program_config *out)
{
    const fl_program_config c = {
        .min_block_size = fl_strategy_value_of(s, "min_block_size").i,
        .slice_var_up = bool_of(s, "slice_var_up"),
        .split_method = split_names[CHOICE(s, "split_method", split_names)],
        .geo_sgd_need_push_nums = fl_strategy_value_of(s, push_nums_name(s)).i,
        .gradient_weight =
            weight_names[CHOICE(s, "gradient_weight", weight_names)],
    };

    return FL_ARGS_FILL(fl_program_config, out, &c);
}

fl_status fl_strategy_set_program_config(fl_strategy *s,
                                         const fl_program_config *config)
{
    fl_str words = { 0 };
    fl_program_config c;

    FL_TRY(FL_ARGS_READ(fl_program_config, &c, config));
    fl_str_addf(&words,
                "min_block_size=%" PRId64 " slice_var_up=%s %s=%" PRId64,
                c.min_block_size, yes_no(c.slice_var_up), push_nums_name(s),
                c.geo_sgd_need_push_nums);
    if (c.split_method)
        fl_str_addf(&words, " split_method=%s", c.split_method);
    if (c.gradient_weight)
        fl_str_addf(&words, " gradient_weight=%s", c.gradient_weight);
    return set_and_free(s, &words);
}

/* --- runtime configs ------------------------------------------------------ */

fl_status fl_strategy_get_trainer_runtime_config(fl_strategy *s,
                                                 fl_trainer_runtime_config *out)
{
    const fl_trainer_runtime_config c = {
        .communicator_max_merge_var_num =
            int_of(s, "communicator_max_merge_var_num"),
        .communicator_send_queue_size =
            int_of(s, "communicator_send_queue_size"),
        .communicator_independent_recv_thread =
            bool_of(s, "communicator_independent_recv_thread"),
        .communicator_min_send_grad_num_before_recv =
            int_of(s, "communicator_min_send_grad_num_before_recv"),
        .communicator_thread_pool_size =
            int_of(s, "communicator_thread_pool_size"),
        .communicator_send_wait_times =
            int_of(s, "communicator_send_wait_times"),
        .communicator_is_sgd_optimizer =
            bool_of(s, "communicator_is_sgd_optimizer"),
        .prefetch = bool_of(s, "prefetch"),
        .wire_pull = wire_names[CHOICE(s, "wire_pull", wire_names)],
        .wire_push = wire_names[CHOICE(s, "wire_push", wire_names)],
    };

    return FL_ARGS_FILL(fl_trainer_runtime_config, out, &c);
}

fl_status
fl_strategy_set_trainer_runtime_config(fl_strategy *s,
                                       const fl_trainer_runtime_config *config)
{
    fl_str words = { 0 };
    fl_trainer_runtime_config c;

    FL_TRY(FL_ARGS_READ(fl_trainer_runtime_config, &c, config));
    fl_str_addf(&words,
                "communicator_max_merge_var_num=%d "
                "communicator_send_queue_size=%d "
                "communicator_independent_recv_thread=%s "
                "communicator_min_send_grad_num_before_recv=%d ",
                c.communicator_max_merge_var_num,
                c.communicator_send_queue_size,
                yes_no(c.communicator_independent_recv_thread),
                c.communicator_min_send_grad_num_before_recv);
    fl_str_addf(&words,
                "communicator_thread_pool_size=%d "
                "communicator_send_wait_times=%d "
                "communicator_is_sgd_optimizer=%s prefetch=%s",
                c.communicator_thread_pool_size, c.communicator_send_wait_times,
                yes_no(c.communicator_is_sgd_optimizer), yes_no(c.prefetch));
    if (c.wire_pull)
        fl_str_addf(&words, " wire_pull=%s", c.wire_pull);
    if (c.wire_push)
        fl_str_addf(&words, " wire_push=%s", c.wire_push);
    return set_and_free(s, &words);
}

fl_status fl_strategy_get_server_runtime_config(fl_strategy *s,
                                                fl_server_runtime_config *out)
{
    const fl_server_runtime_config c = { .server_threads =
                                             int_of(s, "server_threads") };

    return FL_ARGS_FILL(fl_server_runtime_config, out, &c);
}

fl_status
fl_strategy_set_server_runtime_config(fl_strategy *s,
                                      const fl_server_runtime_config *config)
{
    fl_str words = { 0 };
    fl_server_runtime_config c;

    FL_TRY(FL_ARGS_READ(fl_server_runtime_config, &c, config));
    fl_str_addf(&words, "server_threads=%d", c.server_threads);
    return set_and_free(s, &words);
}

/* --- build and execute strategies ----------------------------------------- */

fl_status fl_strategy_get_build_strategy(fl_strategy *s, fl_build_strategy *out)
{
    const fl_build_strategy b = {
        .reduce_strategy = (fl_reduce_strategy)CHOICE(
            s, "build_strategy.reduce_strategy", reduce_names),
        .gradient_scale_strategy = (fl_gradient_scale)CHOICE(
            s, "build_strategy.gradient_scale_strategy", scale_names),
    };

    return FL_ARGS_FILL(fl_build_strategy, out, &b);
}

fl_status fl_strategy_set_build_strategy(fl_strategy *s,
                                         const fl_build_strategy *how)
{
    fl_str words = { 0 };
    fl_build_strategy b;
    size_t reduce, scale;

    FL_TRY(FL_ARGS_READ(fl_build_strategy, &b, how));
    reduce = (size_t)b.reduce_strategy;
    scale = (size_t)b.gradient_scale_strategy;
    if (reduce >= FL_LEN(reduce_names) || scale >= FL_LEN(scale_names))
        FL_FAIL(FL_ERR_INVAL,
                "strategy %s: reduce_strategy %zu and gradient_scale_strategy "
                "%zu are not both constants of executor.h",
                s->kind, reduce, scale);
    fl_str_addf(&words, "reduce_strategy=%s gradient_scale_strategy=%s",
                reduce_names[reduce], scale_names[scale]);
    return set_and_free(s, &words);
}

fl_status fl_strategy_get_execute_strategy(fl_strategy *s,
                                           fl_exec_strategy *out)
{
    const fl_exec_strategy e = {
        .n_threads = int_of(s, "execute_strategy.num_threads"),
        .n_replicas = int_of(s, "execute_strategy.num_replicas"),
    };

    return FL_ARGS_FILL(fl_exec_strategy, out, &e);
}

fl_status fl_strategy_set_execute_strategy(fl_strategy *s,
                                           const fl_exec_strategy *how)
{
    fl_str words = { 0 };
    fl_exec_strategy e;

    FL_TRY(FL_ARGS_READ(fl_exec_strategy, &e, how));
    fl_str_addf(&words, "num_threads=%d num_replicas=%d", e.n_threads,
                e.n_replicas);
    return set_and_free(s, &words);
}
