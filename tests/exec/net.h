/* net.h - small networks and batches for the executor's tests. */
#ifndef FL_TESTS_EXEC_NET_H
#define FL_TESTS_EXEC_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "flotilla/flotilla.h"

#define NET_WIDTH 6
#define NET_BATCH 12
#define NET_ROWS 50
#define NET_DIM 4

/* Fails the test with the library's own sentence. */
#define assert_ok(expr)                                                        \
    do {                                                                       \
        if (expr)                                                              \
            fail_msg("%s", fl_last_error());                                   \
    } while (0)

#define assert_error(expr, code, words)                                        \
    do {                                                                       \
        assert_int_equal(expr, code);                                          \
        assert_non_null(strstr(fl_last_error(), words));                       \
    } while (0)

/* A batch: dense x [n, NET_WIDTH], one id list per sample, labels. */
typedef struct net_batch {
    float x[NET_BATCH * NET_WIDTH];
    int64_t ids[NET_BATCH * 3];
    int64_t offsets[NET_BATCH + 1];
    int64_t label[NET_BATCH];
    fl_feed feeds[3];
} net_batch;

/* Fills the batch with number `no`, with n samples. */
void net_fill(net_batch *b, int no, int n);

/* embedding (sparse) + pool, concat with x, fc relu, fc softmax, cross
   entropy, mean, minimised by `kind`. Returns the loss. */
fl_var *net_build(fl_ctx *c, const char *kind, const char *settings);

/* The same without an optimizer, and with an embedding as the caller says. */
fl_var *net_forward(fl_ctx *c, const fl_layers_embedding_args *args);

/* Runs the default startup program. */
void net_start(fl_ctx *c, fl_executor *e);

/* The value of a parameter, copied; n is its number of elements. */
float *net_copy(fl_ctx *c, const char *name, size_t *n);

#endif
