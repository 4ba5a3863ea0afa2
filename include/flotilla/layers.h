/* layers.h - the pieces networks are made of, under the names that users of
 * PaddlePaddle Fluid know.
 *
 * A layer appends operators to the program of its input and returns the output
 * variable. On failure it returns NULL and leaves the reason in
 * fl_last_error(); a NULL input gives NULL without a new reason, so a network
 * can be written straight down and checked once, at its end.
 *
 * Options are named and may be left out:
 *
 *     fl_var *h = fl_layers_fc(x, 128, .act = "tanh");
 */
#ifndef FLOTILLA_LAYERS_H
#define FLOTILLA_LAYERS_H

#include "flotilla/block.h"
#include "flotilla/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A learned parameter. Everything may be left out.
     init         "uniform(-1,1)" "normal(0,0.1)" "truncated_normal(0,1)"
                  "constant(0)" "xavier" "xavier_normal" "msra" "msra_normal",
                  with fans of your own "xavier(20,40)" "msra(20)"; the
                  default is xavier, constant(0) for a bias
     regularizer  "l1(0.1)" "l2(0.1)"
     clip         "value(-1,1)" "norm(5)" */
typedef struct fl_param_attr {
    const char *name, *init, *regularizer, *clip;
    double learning_rate; /* multiplier; 0 stands for 1 */
    bool frozen;          /* not trained */
    const void
        *reserved[4]; /* zero; it is a part of others, so does not grow */
} fl_param_attr;

/* --- input --------------------------------------------------------------- */

/* A fed variable; dims[0] is the batch, usually -1. lod_level 1 makes it an
   id list or a sequence per sample. */
FL_API fl_var *fl_layers_data(fl_ctx *c, const char *name, fl_dtype dtype,
                              int rank, const int64_t *dims, int lod_level);

/* --- layers with parameters ---------------------------------------------- */

/* A parameter that belongs to no layer, for operators of one's own:

       fl_layers_create_parameter(ctx, .shape = { 2, { 3, 4 } }, .name = "w"); */
typedef struct fl_layers_create_parameter_args {
    uint32_t size;
    fl_dtype dtype;
    fl_shape shape;
    bool is_bias;     /* its first value is 0 unless param.init says another */
    const char *name; /* as param.name */
    fl_param_attr param;
} fl_layers_create_parameter_args;

#define fl_layers_create_parameter(c, ...)                                     \
    fl_layers_create_parameter_with(                                           \
        c, FL_OPTIONS(fl_layers_create_parameter_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_create_parameter_with(fl_ctx *c,
                                const fl_layers_create_parameter_args *args);

typedef struct fl_layers_fc_args {
    uint32_t size;
    const char *act; /* "relu", "tanh", "sigmoid", "softmax" or NULL */
    fl_param_attr param, bias;
    bool no_bias;
    int num_flatten_dims; /* 0 stands for 1 */
    const char *name;
} fl_layers_fc_args;

/* Several inputs, each with weights of its own; the products are added. */
FL_API fl_var *fl_layers_fc_with(fl_var *const *inputs, size_t n_inputs,
                                 int64_t size, const fl_layers_fc_args *args);

static inline fl_var *fl_layers_fc_one(fl_var *input, int64_t width,
                                       const fl_layers_fc_args *args)
{
    return fl_layers_fc_with(&input, 1, width, args);
}

#define fl_layers_fc(input, width, ...)                                        \
    fl_layers_fc_one(input, width, FL_OPTIONS(fl_layers_fc_args, __VA_ARGS__))

/* With is_distributed the rows are in a table (table.h): it grows with the ids
   that are seen, any 64-bit id is one, and its optimizer state is its own.
   Updates and decay act on the rows of the batch alone. Embeddings that share
   a table say the same of it, or nothing. */
typedef struct fl_layers_embedding_args {
    uint32_t size;
    bool is_sparse;
    bool is_distributed;
    const int64_t *padding_idx; /* the row that reads as zeros; NULL: none */
    /* Of a table: when an id gets a row ("count_filter_entry:5",
       "probability_entry:0.3", "show_click_entry:10"), what a row is made of
       ("plain", "ctr"), and further words ("max_rows=1000000"). */
    const char *entry, *accessor, *table;
    /* Shows and clicks of the samples, one number each, for tables that count
       them. NULL: one show and no click. */
    fl_var *show, *click;
    fl_param_attr param;
    fl_dtype dtype;
    const char *name;
} fl_layers_embedding_args;

/* ids [.., 1] gives [.., width] from a table of height x width. A table of
   is_distributed may have height 0: no limit to its ids. */
#define fl_layers_embedding(ids, height, width, ...)                           \
    fl_layers_embedding_with(                                                  \
        ids, height, width, FL_OPTIONS(fl_layers_embedding_args, __VA_ARGS__))

/* The same with is_distributed and without a height. */
#define fl_layers_sparse_embedding(ids, width, ...)                            \
    fl_layers_embedding_with(ids, 0, width,                                    \
                             FL_OPTIONS(fl_layers_embedding_args,              \
                                        .is_distributed = true, __VA_ARGS__))
FL_API fl_var *fl_layers_embedding_with(fl_var *ids, int64_t height,
                                        int64_t width,
                                        const fl_layers_embedding_args *args);

/* Every channel gets mean 0 and deviation 1, then a scale and a shift that are
   learned. The running mean and variance, which a clone for test uses, are
   counted by the process that trains (docs/modes.md). */
typedef struct fl_layers_batch_norm_args {
    uint32_t size;
    const char *act;
    bool is_test, use_global_stats;
    double momentum;         /* of the running numbers; 0 stands for 0.9 */
    double epsilon;          /* 0 stands for 1e-5 */
    const char *data_layout; /* "NCHW", the default, or "NHWC" */
    fl_param_attr param, bias;
    const char *moving_mean_name, *moving_variance_name;
    const char *name;
} fl_layers_batch_norm_args;

#define fl_layers_batch_norm(input, ...)                                       \
    fl_layers_batch_norm_with(                                                 \
        input, FL_OPTIONS(fl_layers_batch_norm_args, __VA_ARGS__))
FL_API fl_var *fl_layers_batch_norm_with(fl_var *input,
                                         const fl_layers_batch_norm_args *args);

/* The same row by row, where a row is what lies behind begin_norm_axis. */
typedef struct fl_layers_layer_norm_args {
    uint32_t size;
    bool no_scale, no_shift;
    int begin_norm_axis; /* 0 stands for 1 */
    double epsilon;      /* 0 stands for 1e-5 */
    fl_param_attr param, bias;
    const char *act;
    const char *name;
} fl_layers_layer_norm_args;

#define fl_layers_layer_norm(input, ...)                                       \
    fl_layers_layer_norm_with(                                                 \
        input, FL_OPTIONS(fl_layers_layer_norm_args, __VA_ARGS__))
FL_API fl_var *fl_layers_layer_norm_with(fl_var *input,
                                         const fl_layers_layer_norm_args *args);

/* Columns by what was counted of all batches so far: NAME.batch_size,
   NAME.batch_sum and NAME.batch_square_sum, which begin with 10000, 0 and
   10000 and are counted by the process that trains (docs/modes.md). */
typedef struct fl_layers_data_norm_args {
    uint32_t size;
    const char *act;
    double epsilon;            /* 0 stands for 1e-4 */
    double summary_decay_rate; /* 0 stands for 0.9999999 */
    int slot_dim; /* columns of a slot, its shows first; 0: there are none */
    bool enable_scale_and_shift;
    fl_param_attr param, bias; /* of scale and shift */
    const char *name;
} fl_layers_data_norm_args;

#define fl_layers_data_norm(input, ...)                                        \
    fl_layers_data_norm_with(                                                  \
        input, FL_OPTIONS(fl_layers_data_norm_args, __VA_ARGS__))
FL_API fl_var *fl_layers_data_norm_with(fl_var *input,
                                        const fl_layers_data_norm_args *args);

/* Word vectors by skip-gram with negatives: everything may be left out. */
typedef struct fl_layers_skip_gram_args {
    uint32_t size;
    int window;           /* each word draws from 1 to it; 0 stands for 5 */
    const int *negatives; /* beside each word; NULL stands for 5 */
    bool shared;          /* one draw of negatives for all words of a window */
    bool is_distributed;  /* rows are in tables, as those of embeddings */
    int64_t seed;         /* 0: that of the program */
    /* 0: the gradient of a batch as a whole. Else its windows are walked
       through in order in steps of that rate, which is to be that of the
       optimizer, and the gradient is the way; with sgd, and outside of
       tables, the steps are made in place. */
    double step;
    fl_param_attr param, target_param; /* of words as inputs, as targets */
    fl_var **mean; /* where it is wanted: the loss of a pair, on the average */
    const char *name;
} fl_layers_skip_gram_args;

/* The loss, a sum over all pairs, of sentences `words` [n, 1] of one level and
   the words `noise` that negatives are drawn from, all below `height`. */
#define fl_layers_skip_gram(words, noise, height, width, ...)                  \
    fl_layers_skip_gram_with(                                                  \
        words, noise, height, width,                                           \
        FL_OPTIONS(fl_layers_skip_gram_args, __VA_ARGS__))
FL_API fl_var *fl_layers_skip_gram_with(fl_var *words, fl_var *noise,
                                        int64_t height, int64_t width,
                                        const fl_layers_skip_gram_args *args);

/* --- layers without ------------------------------------------------------ */

/* relu sigmoid tanh square sqrt softmax ... : any operator X -> Out without
   required attributes. attrs is in text form, "{axis=1}", or NULL. */
FL_API fl_var *fl_layers_unary(const char *op, fl_var *x, const char *attrs);

/* elementwise_add, mul, matmul ...: any operator (X, Y) -> Out. */
FL_API fl_var *fl_layers_binary(const char *op, fl_var *x, fl_var *y,
                                const char *attrs);

/* Operators X -> Out by their names: fl_layers_relu(x), or with the attribute
   that stands behind the name fl_layers_leaky_relu(x, alpha). One row each. */
#define FL_LAYERS_OF_X(PLAIN, WITH)                                            \
    PLAIN(relu)                                                                \
    PLAIN(sigmoid)                                                             \
    PLAIN(logsigmoid)                                                          \
    PLAIN(tanh)                                                                \
    PLAIN(tanh_shrink)                                                         \
    PLAIN(softsign)                                                            \
    PLAIN(softplus)                                                            \
    PLAIN(square)                                                              \
    PLAIN(sqrt)                                                                \
    PLAIN(rsqrt)                                                               \
    PLAIN(reciprocal)                                                          \
    PLAIN(exp)                                                                 \
    PLAIN(log)                                                                 \
    PLAIN(log1p)                                                               \
    PLAIN(abs)                                                                 \
    PLAIN(sign)                                                                \
    PLAIN(ceil)                                                                \
    PLAIN(floor)                                                               \
    PLAIN(round)                                                               \
    PLAIN(sin)                                                                 \
    PLAIN(cos)                                                                 \
    PLAIN(asin)                                                                \
    PLAIN(acos)                                                                \
    PLAIN(softmax)                                                             \
    PLAIN(mean)                                                                \
    PLAIN(squared_l2_norm)                                                     \
    PLAIN(fill_zeros_like)                                                     \
    WITH(pow, factor)                                                          \
    WITH(leaky_relu, alpha)                                                    \
    WITH(elu, alpha)                                                           \
    WITH(relu6, threshold)                                                     \
    WITH(thresholded_relu, threshold)                                          \
    WITH(soft_relu, threshold)                                                 \
    WITH(softshrink, lambda)                                                   \
    WITH(hard_shrink, threshold)                                               \
    WITH(swish, beta)                                                          \
    WITH(sampled_logit, share)

#define FL_LAYER_PLAIN(name) FL_API fl_var *fl_layers_##name(fl_var *x);
#define FL_LAYER_WITH(name, attr)                                              \
    FL_API fl_var *fl_layers_##name(fl_var *x, double attr);
FL_LAYERS_OF_X(FL_LAYER_PLAIN, FL_LAYER_WITH)
#undef FL_LAYER_WITH

FL_API fl_var *fl_layers_brelu(fl_var *x, double t_min, double t_max);
FL_API fl_var *fl_layers_stanh(fl_var *x, double scale_a, double scale_b);
FL_API fl_var *fl_layers_hard_sigmoid(fl_var *x, double slope, double offset);
FL_API fl_var *fl_layers_hard_swish(fl_var *x, double threshold, double scale,
                                    double offset);
FL_API fl_var *fl_layers_gelu(fl_var *x, bool approximate);

/* Of two numbers. The one of lower rank stands in the other at axis (-1: at
   its end); where one has no dimension, or 1, it is repeated. */
#define FL_LAYERS_ELEMENTWISE(E)                                               \
    E(elementwise_add)                                                         \
    E(elementwise_sub)                                                         \
    E(elementwise_mul)                                                         \
    E(elementwise_div)                                                         \
    E(elementwise_max)                                                         \
    E(elementwise_min)                                                         \
    E(elementwise_pow)                                                         \
    E(elementwise_mod)                                                         \
    E(elementwise_floordiv)

#define FL_LAYER_AXIS(name)                                                    \
    FL_API fl_var *fl_layers_##name(fl_var *x, fl_var *y, int axis);
FL_LAYERS_ELEMENTWISE(FL_LAYER_AXIS)
#undef FL_LAYER_AXIS

/* Of any type; the result is bool. Logic is of bool to bool. */
#define FL_LAYERS_COMPARING(C)                                                 \
    C(less_than)                                                               \
    C(less_equal)                                                              \
    C(greater_than)                                                            \
    C(greater_equal)                                                           \
    C(equal)                                                                   \
    C(not_equal)

#define FL_LAYERS_LOGICAL(L)                                                   \
    L(logical_and)                                                             \
    L(logical_or)                                                              \
    L(logical_xor)

#define FL_LAYER_OF_TWO(name)                                                  \
    FL_API fl_var *fl_layers_##name(fl_var *x, fl_var *y);
FL_LAYERS_COMPARING(FL_LAYER_OF_TWO)
FL_LAYERS_LOGICAL(FL_LAYER_OF_TWO)
#undef FL_LAYER_OF_TWO
FL_API fl_var *fl_layers_logical_not(fl_var *x);

/* Over all elements; reduce_all and reduce_any are of bool. */
#define FL_LAYERS_REDUCE(R)                                                    \
    R(reduce_sum)                                                              \
    R(reduce_mean)                                                             \
    R(reduce_max)                                                              \
    R(reduce_min)                                                              \
    R(reduce_prod)                                                             \
    R(reduce_all)                                                              \
    R(reduce_any)
FL_LAYERS_REDUCE(FL_LAYER_PLAIN)
#undef FL_LAYER_PLAIN

/* One of them over some dimensions, or over all when n_dims is 0; keep_dim
   leaves 1 in their places. */
FL_API fl_var *fl_layers_reduce(const char *op, fl_var *x, const int64_t *dims,
                                size_t n_dims, bool keep_dim);

/* Vectors of length 1 along axis. */
FL_API fl_var *fl_layers_l2_normalize(fl_var *x, int axis);
FL_API fl_var *fl_layers_scale(fl_var *x, double scale, double bias);
FL_API fl_var *fl_layers_square_error_cost(fl_var *input, fl_var *label);
FL_API fl_var *fl_layers_concat(fl_var *const *inputs, size_t n, int axis);

/* Equal parts; out has room for n. */
FL_API fl_status fl_layers_split(fl_var *x, int n, int axis, fl_var **out);
FL_API fl_var *fl_layers_sum(fl_var *const *inputs, size_t n);
FL_API fl_var *fl_layers_reshape(fl_var *x, int rank, const int64_t *dims);
FL_API fl_var *fl_layers_cast(fl_var *x, fl_dtype dtype);
FL_API fl_var *fl_layers_dropout(fl_var *x, double dropout_prob);
FL_API fl_var *fl_layers_clip(fl_var *x, double min, double max);
FL_API fl_var *fl_layers_clip_by_norm(fl_var *x, double max_norm);

FL_API fl_var *fl_layers_fill_constant(fl_ctx *c, fl_dtype dtype, int rank,
                                       const int64_t *dims, double value);

/* --- sequences: rows with offsets (lod_level 1) --------------------------- */

/* "sum" "average" "sqrt" "max" "first" "last" over each sequence. */
FL_API fl_var *fl_layers_sequence_pool(fl_var *x, const char *pool_type);
FL_API fl_var *fl_layers_sequence_first_step(fl_var *x);
FL_API fl_var *fl_layers_sequence_last_step(fl_var *x);
FL_API fl_var *fl_layers_sequence_softmax(fl_var *x);
FL_API fl_var *fl_layers_sequence_reverse(fl_var *x);

/* Sequences (or rows) of x, each as often as the sequence of y is long that
   has its number, at ref_level of y; -1 is the innermost level. */
FL_API fl_var *fl_layers_sequence_expand(fl_var *x, fl_var *y, int ref_level);

/* Row i of x for every row of sequence i of y. */
FL_API fl_var *fl_layers_sequence_expand_as(fl_var *x, fl_var *y);

/* Sequence i of every input, one behind the other. */
FL_API fl_var *fl_layers_sequence_concat(fl_var *const *inputs, size_t n);

/* Lines of maxlen rows (-1: as many as the longest has), filled up with
   pad_value, which is one number or one row; *length, where it is wanted, gets
   the number of rows of each sequence. */
FL_API fl_var *fl_layers_sequence_pad(fl_var *x, fl_var *pad_value,
                                      int64_t maxlen, fl_var **length);

/* The way back: the first length[i] rows of line i. */
FL_API fl_var *fl_layers_sequence_unpad(fl_var *x, fl_var *length);

/* The numbers of each sequence in rows of new_dim. */
FL_API fl_var *fl_layers_sequence_reshape(fl_var *x, int64_t new_dim);

/* length[i] rows of sequence i from offset[i] on. */
FL_API fl_var *fl_layers_sequence_slice(fl_var *x, fl_var *offset,
                                        fl_var *length);

/* Every id and the win_size - 1 that follow it, pad_value behind the end. */
FL_API fl_var *fl_layers_sequence_enumerate(fl_var *x, int64_t win_size,
                                            int64_t pad_value);

/* Lengths to rows of maxlen numbers (-1: the largest length): ones, then
   zeros. */
FL_API fl_var *fl_layers_sequence_mask(fl_var *x, int64_t maxlen,
                                       fl_dtype dtype);

typedef struct fl_layers_sequence_conv_args {
    uint32_t size;
    int64_t filter_size; /* rows of a window; 0 stands for 3 */
    /* Where the window of a row begins, counted from it; NULL: it has the row
       in its middle. */
    const int64_t *padding_start;
    const char *act;
    fl_param_attr param, bias;
    bool no_bias;
    const char *name;
} fl_layers_sequence_conv_args;

/* The rows around each row of x [.., width] times [filter_size * width,
   num_filters]; behind the ends of a sequence there are zeros. */
#define fl_layers_sequence_conv(x, num_filters, ...)                           \
    fl_layers_sequence_conv_with(                                              \
        x, num_filters, FL_OPTIONS(fl_layers_sequence_conv_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_sequence_conv_with(fl_var *x, int64_t num_filters,
                             const fl_layers_sequence_conv_args *args);

typedef struct fl_layers_sequence_conv_pool_args {
    uint32_t size;
    const char *act;       /* NULL stands for "sigmoid" */
    const char *pool_type; /* NULL stands for "max" */
    fl_param_attr param, bias;
    bool no_bias;
} fl_layers_sequence_conv_pool_args;

/* A sequence_conv and a sequence_pool. */
#define fl_layers_sequence_conv_pool(x, num_filters, filter_size, ...)         \
    fl_layers_sequence_conv_pool_with(                                         \
        x, num_filters, filter_size,                                           \
        FL_OPTIONS(fl_layers_sequence_conv_pool_args, __VA_ARGS__))
FL_API fl_var *fl_layers_sequence_conv_pool_with(
    fl_var *x, int64_t num_filters, int64_t filter_size,
    const fl_layers_sequence_conv_pool_args *args);

/* Activations: "identity" "sigmoid" "tanh" "relu"; NULL stands for tanh, of
   the gates for sigmoid. */
typedef struct fl_layers_gru_args {
    uint32_t size;
    const char *candidate_activation, *gate_activation;
    bool origin_mode;
    fl_param_attr param, bias;
    bool no_bias;
    const char *name;
    /* Of dynamic_gru alone: hidden rows before the first ones [sequences,
       width], and the direction. */
    fl_var *h_0;
    bool is_reverse;
    /* Of gru_unit alone: who wants them gets the hidden rows times the reset
       gates, and the gates. */
    fl_var **reset_hidden, **gate;
} fl_layers_gru_args;

/* A recurrent layer of `width` over the rows of each sequence; x is [.., 3 *
   width], what an fc makes of the inputs. */
#define fl_layers_dynamic_gru(x, width, ...)                                   \
    fl_layers_dynamic_gru_with(x, width,                                       \
                               FL_OPTIONS(fl_layers_gru_args, __VA_ARGS__))
FL_API fl_var *fl_layers_dynamic_gru_with(fl_var *x, int64_t width,
                                          const fl_layers_gru_args *args);

/* One step of it for a batch: x [n, 3 * width] and hidden [n, width]. */
#define fl_layers_gru_unit(x, hidden, width, ...)                              \
    fl_layers_gru_unit_with(x, hidden, width,                                  \
                            FL_OPTIONS(fl_layers_gru_args, __VA_ARGS__))
FL_API fl_var *fl_layers_gru_unit_with(fl_var *x, fl_var *hidden, int64_t width,
                                       const fl_layers_gru_args *args);
/* --- shapes and places --------------------------------------------------- */

/* One dimension of a shape, or one limit of a slice: a number, or a variable
   of one integer that gives it when the program runs. */
typedef struct fl_dim {
    int64_t size;
    fl_var *var; /* NULL: size says it */
} fl_dim;

/* The dimensions of x as i32; a slice of it is one of them. */
FL_API fl_var *fl_layers_shape(fl_var *x);

/* [starts[i], ends[i]) along axes[i], from the end when negative. */
FL_API fl_var *fl_layers_slice(fl_var *x, size_t n, const int64_t *axes,
                               const int64_t *starts, const int64_t *ends);
FL_API fl_var *fl_layers_slice_dims(fl_var *x, size_t n, const int64_t *axes,
                                    const fl_dim *starts, const fl_dim *ends);

/* A value in a shape that the batch decides. */
FL_API fl_var *fl_layers_fill_constant_dims(fl_ctx *c, fl_dtype dtype, int rank,
                                            const fl_dim *dims, double value);
FL_API fl_var *fl_layers_reshape_dims(fl_var *x, int rank, const fl_dim *dims);

FL_API fl_var *fl_layers_stack(fl_var *const *inputs, size_t n, int axis);
FL_API fl_var *fl_layers_transpose(fl_var *x, int rank, const int64_t *order);

/* Without axes of length 1: the n named ones, or all with n 0. */
FL_API fl_var *fl_layers_squeeze(fl_var *x, size_t n, const int64_t *axes);
FL_API fl_var *fl_layers_unsqueeze(fl_var *x, size_t n, const int64_t *axes);
FL_API fl_var *fl_layers_flatten(fl_var *x, int axis);
FL_API fl_var *fl_layers_expand(fl_var *x, int rank, const int64_t *times);
FL_API fl_var *fl_layers_expand_as(fl_var *x, fl_var *target);

FL_API fl_var *fl_layers_gather(fl_var *x, fl_var *index);
FL_API fl_var *fl_layers_gather_nd(fl_var *x, fl_var *index);
FL_API fl_var *fl_layers_index_sample(fl_var *x, fl_var *index);

/* x with rows ids[i] replaced by updates[i]; with `overwrite` false by the sum
   of those that share a row. */
FL_API fl_var *fl_layers_scatter(fl_var *x, fl_var *ids, fl_var *updates,
                                 bool overwrite);
FL_API fl_var *fl_layers_one_hot(fl_var *ids, int64_t depth);
FL_API fl_var *fl_layers_one_hot_v2(fl_var *ids, int64_t depth);
FL_API fl_var *fl_layers_arg_max(fl_var *x, int axis);
FL_API fl_var *fl_layers_arg_min(fl_var *x, int axis);

/* *indices, where it is wanted, gets the places of the numbers before. */
FL_API fl_var *fl_layers_argsort(fl_var *x, int axis, bool descending,
                                 fl_var **indices);
FL_API fl_var *fl_layers_range(fl_var *start, fl_var *end, fl_var *step);

/* Adds `step` to the variable itself, which is returned. */
FL_API fl_var *fl_layers_increment(fl_var *x, double step);
FL_API fl_var *fl_layers_where(fl_var *condition, fl_var *x, fl_var *y);

/* Runs `block`, a block inside that of the condition, one bool, when it is
   true. What the block writes outside of itself keeps its value otherwise. Make
   the block (fl_block_new), append its operators (fl_append_op), then call
   this: it finds what they read and write. */
FL_API FL_MUST_CHECK
fl_status fl_layers_conditional_block(fl_var *condition, fl_block *block);

/* A row per place at which the condition holds. */
FL_API fl_var *fl_layers_where_index(fl_var *condition);

/* Rows in a drawn order; *order, where it is wanted, gets the new place of
   each. seed 0 is the seed of the program. */
FL_API fl_var *fl_layers_shuffle_batch(fl_var *x, int64_t seed, fl_var **order);
FL_API fl_var *fl_layers_fill_any_like(fl_var *x, double value);

/* Numbers that stand in the program. */
FL_API fl_var *fl_layers_assign_value(fl_ctx *c, fl_dtype dtype, int rank,
                                      const int64_t *dims,
                                      const double *values);
FL_API fl_var *fl_layers_seed(fl_ctx *c, int64_t seed);

/* Rows + values: each row once, and the values alone. */
FL_API fl_var *fl_layers_merge_selected_rows(fl_var *x);
FL_API fl_var *fl_layers_get_tensor_from_selected_rows(fl_var *x);

/* Children of nodes of a tree, row by row of tree_info; *leaf_mask, where it is
   wanted, tells the items among them. */
FL_API fl_var *fl_layers_tdm_child(fl_var *x, fl_var *tree_info,
                                   int64_t child_nums, fl_var **leaf_mask);

typedef struct fl_layers_tdm_sampler_args {
    uint32_t size;
    size_t n_layers;
    const int64_t *neg_samples_num_list; /* per layer */
    const int64_t *layer_offset_lod;     /* n_layers + 1 places in `layer` */
    bool no_positive;                    /* negatives alone */
    int64_t seed;
    fl_dtype dtype;          /* int32 or int64; F32, 0, stands for int64 */
    fl_var **labels, **mask; /* where they are wanted */
} fl_layers_tdm_sampler_args;

/* The path of each item and drawn nodes beside it, layer by layer. */
FL_API fl_var *
fl_layers_tdm_sampler_with(fl_var *x, fl_var *travel, fl_var *layer,
                           const fl_layers_tdm_sampler_args *args);
#define fl_layers_tdm_sampler(x, travel, layer, ...)                           \
    fl_layers_tdm_sampler_with(                                                \
        x, travel, layer, FL_OPTIONS(fl_layers_tdm_sampler_args, __VA_ARGS__))

/* --- losses and metrics -------------------------------------------------- */

/* Of probabilities, with hard labels (class numbers). */
FL_API fl_var *fl_layers_cross_entropy(fl_var *input, fl_var *label);

/* Of logits; *softmax, where it is wanted, gets the probabilities. */
FL_API fl_var *fl_layers_softmax_with_cross_entropy(fl_var *logits,
                                                    fl_var *label,
                                                    fl_var **softmax);
FL_API fl_var *fl_layers_sigmoid_cross_entropy_with_logits(fl_var *x,
                                                           fl_var *label);

typedef struct fl_layers_cross_entropy_args {
    uint32_t size;
    bool soft_label;             /* label has a weight for each class */
    const int64_t *ignore_index; /* the class that costs nothing; NULL: -100 */
} fl_layers_cross_entropy_args;

/* The same with weights of all classes, or with a class that is left out. */
FL_API fl_var *
fl_layers_cross_entropy_with(fl_var *input, fl_var *label,
                             const fl_layers_cross_entropy_args *args);

/* Of predictions, place by place: labels are 0 or 1, or between. */
FL_API fl_var *fl_layers_log_loss(fl_var *input, fl_var *label, double epsilon);
FL_API fl_var *fl_layers_hinge_loss(fl_var *logits, fl_var *label);
FL_API fl_var *fl_layers_huber_loss(fl_var *input, fl_var *label, double delta);

/* Added up over each row; weights may be NULL. */
FL_API fl_var *fl_layers_smooth_l1(fl_var *x, fl_var *y, fl_var *inside_weight,
                                   fl_var *outside_weight, double sigma);

/* x holds logarithms; reduction is "none" "mean" "batchmean" "sum", and NULL
   stands for mean. */
FL_API fl_var *fl_layers_kldiv_loss(fl_var *x, fl_var *target,
                                    const char *reduction);

/* Of two scores: the label says whether left is to be the larger, 1 or -1 for
   margin_rank_loss, 1 or 0 for rank_loss. */
FL_API fl_var *fl_layers_margin_rank_loss(fl_var *label, fl_var *left,
                                          fl_var *right, double margin);
FL_API fl_var *fl_layers_rank_loss(fl_var *label, fl_var *left, fl_var *right);

/* The score of the class of the label against those of all others. */
FL_API fl_var *fl_layers_bpr_loss(fl_var *input, fl_var *label);

typedef struct fl_layers_nce_args {
    uint32_t size;
    int num_neg_samples; /* 0 stands for 10 */
    /* How noise is drawn: "uniform", the default, "log_uniform", or
       "custom_dist" by a probability for each class. */
    const char *sampler;
    const double *custom_dist;
    int64_t seed;
    fl_var *sample_weight; /* a number for each row */
    /* Rows of weights and biases are looked up, as those of an embedding are:
       gradients are rows + values, with servers the rows are in tables, and
       with is_distributed they are from the start. */
    bool is_sparse, is_distributed;
    bool no_bias;
    fl_param_attr param, bias;
    const char *name;
} fl_layers_nce_args;

/* Noise-contrastive estimation: the cost of telling the classes of label
   [n, labels] from noise, per row [n, 1], over num_neg_samples + 1. */
#define fl_layers_nce(input, label, num_total_classes, ...)                    \
    fl_layers_nce_with(input, label, num_total_classes,                        \
                       FL_OPTIONS(fl_layers_nce_args, __VA_ARGS__))
FL_API fl_var *fl_layers_nce_with(fl_var *input, fl_var *label,
                                  int64_t num_total_classes,
                                  const fl_layers_nce_args *args);

/* The cosine of rows of x and y, or of all rows of x and the only one of y. */
FL_API fl_var *fl_layers_cos_sim(fl_var *x, fl_var *y);

/* Share of rows whose largest input is at the label. */
FL_API fl_var *fl_layers_accuracy(fl_var *input, fl_var *label);

typedef struct fl_layers_auc_args {
    uint32_t size;
    const char *curve;  /* "ROC" (default) or "PR" */
    int num_thresholds; /* 0 stands for 4095 */
    int slide_steps;    /* 0 stands for 1; -1: the batch AUC is the global */
    /* Where they are wanted, these get the histograms of positive and negative
       labels: those over all batches, and those behind batch_auc. */
    fl_var **stat_pos, **stat_neg, **batch_stat_pos, **batch_stat_neg;
} fl_layers_auc_args;

/* The AUC over all batches; *batch_auc, where it is wanted, gets the one over
   the last slide_steps batches. input [n, 2] holds probabilities. */
#define fl_layers_auc(input, label, batch_auc, ...)                            \
    fl_layers_auc_with(input, label, batch_auc,                                \
                       FL_OPTIONS(fl_layers_auc_args, __VA_ARGS__))
FL_API fl_var *fl_layers_auc_with(fl_var *input, fl_var *label,
                                  fl_var **batch_auc,
                                  const fl_layers_auc_args *args);

/* Metrics that are a sum over another, over all batches: the value in f64 [1].
   *stat, where it is wanted, gets the sums in f64 [rows, 2]: what is counted,
   and what it is counted over; those of several workers are added up. */

/* Share of the classes in label [n, m] that are among the k best scores
   [n, classes]; and of the rows that have one there. */
FL_API fl_var *fl_layers_recall(fl_var *scores, fl_var *label, int k,
                                fl_var **stat);
FL_API fl_var *fl_layers_hit_rate(fl_var *scores, fl_var *label, int k,
                                  fl_var **stat);
/* Share of places where the right score is above the wrong one. */
FL_API fl_var *fl_layers_pair_accuracy(fl_var *right, fl_var *wrong,
                                       fl_var **stat);
/* Of chances of label 1, [n, 1] or in the last column of [n, 2]. */
FL_API fl_var *fl_layers_mean_log_loss(fl_var *input, fl_var *label,
                                       fl_var **stat);
/* Share of rows whose best score is at the label; stat has a row per class. */
FL_API fl_var *fl_layers_class_accuracy(fl_var *scores, fl_var *label,
                                        fl_var **stat);

/* --- workers among themselves --------------------------------------------- */

/* All workers of a collective job run these together, in the order of the
   program; a worker alone gets what it has. No gradient flows back through
   them. Layers of different ring_id do not wait for one another. */
typedef struct fl_layers_collective_args {
    uint32_t size;
    int ring_id;          /* 0..15 */
    int root;             /* broadcast, reduce: a rank */
    bool use_calc_stream; /* of other devices: changes nothing */
    const char *name;
} fl_layers_collective_args;

/* "sum" "max" "min" "prod" over the workers, element by element. */
#define fl_layers_c_allreduce(x, op, ...)                                      \
    fl_layers_c_allreduce_with(                                                \
        x, op, FL_OPTIONS(fl_layers_collective_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_c_allreduce_with(fl_var *x, const char *op,
                           const fl_layers_collective_args *args);

/* What the root has, for all of them. */
#define fl_layers_c_broadcast(x, ...)                                          \
    fl_layers_c_broadcast_with(                                                \
        x, FL_OPTIONS(fl_layers_collective_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_c_broadcast_with(fl_var *x, const fl_layers_collective_args *args);

/* The sum at the root; the others get what they had. */
#define fl_layers_c_reduce_sum(x, ...)                                         \
    fl_layers_c_reduce_sum_with(                                               \
        x, FL_OPTIONS(fl_layers_collective_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_c_reduce_sum_with(fl_var *x, const fl_layers_collective_args *args);

/* Rows of all nranks workers, in the order of ranks; and of their sum the rows
   of this one. */
#define fl_layers_c_allgather(x, nranks, ...)                                  \
    fl_layers_c_allgather_with(                                                \
        x, nranks, FL_OPTIONS(fl_layers_collective_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_c_allgather_with(fl_var *x, int nranks,
                           const fl_layers_collective_args *args);
#define fl_layers_c_reducescatter(x, nranks, ...)                              \
    fl_layers_c_reducescatter_with(                                            \
        x, nranks, FL_OPTIONS(fl_layers_collective_args, __VA_ARGS__))
FL_API fl_var *
fl_layers_c_reducescatter_with(fl_var *x, int nranks,
                               const fl_layers_collective_args *args);

/* x, when all workers have come here. */
#define fl_layers_barrier(x, ...)                                              \
    fl_layers_barrier_with(x,                                                  \
                           FL_OPTIONS(fl_layers_collective_args, __VA_ARGS__))
FL_API fl_var *fl_layers_barrier_with(fl_var *x,
                                      const fl_layers_collective_args *args);

/* Prints the variable when it is computed; the identity otherwise. */
FL_API fl_var *fl_layers_print(fl_var *x, const char *message);

#ifdef __cplusplus
}
#endif
#endif
