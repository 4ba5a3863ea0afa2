/* ops_onednn.c - oneDNN's primitives for the operators that it has. */
#include "ops_onednn.h"

#include <stdio.h>
#include <stdlib.h>

/* oneDNN takes its threads from OpenMP. */
extern void omp_set_num_threads(int n);

#define KEPT_MAX 32

/* One primitive X -> Out and the two places that it is given. */
typedef struct kept {
    dnnl_alg_kind_t kind; /* undefined: softmax */
    size_t rows, width;
    dnnl_primitive_t primitive;
    dnnl_memory_t x, out;
} kept;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static kept all[KEPT_MAX];
static size_t n_kept;

static void check(dnnl_status_t st)
{
    if (st == dnnl_success)
        return;
    fprintf(stderr, "bench ops: oneDNN says %d\n", (int)st);
    exit(1);
}

void onednn_start(void)
{
    omp_set_num_threads(1);
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
}

static void make(kept *k)
{
    dnnl_dims_t dims = { (dnnl_dim_t)k->rows, (dnnl_dim_t)k->width };
    dnnl_eltwise_desc_t eltwise;
    dnnl_softmax_desc_t softmax;
    dnnl_primitive_desc_t pd;
    dnnl_memory_desc_t md;
    const void *desc = &eltwise;

    check(dnnl_memory_desc_init_by_tag(&md, 2, dims, dnnl_f32, dnnl_ab));
    if (k->kind == dnnl_alg_kind_undef) {
        check(dnnl_softmax_forward_desc_init(&softmax, dnnl_forward_inference,
                                             &md, 1));
        desc = &softmax;
    } else {
        check(dnnl_eltwise_forward_desc_init(&eltwise, dnnl_forward_inference,
                                             k->kind, &md, 0, 0));
    }
    check(dnnl_primitive_desc_create(&pd, desc, NULL, engine, NULL));
    check(dnnl_primitive_create(&k->primitive, pd));
    check(dnnl_primitive_desc_destroy(pd));
    check(dnnl_memory_create(&k->x, &md, engine, DNNL_MEMORY_NONE));
    check(dnnl_memory_create(&k->out, &md, engine, DNNL_MEMORY_NONE));
}

static kept *find(dnnl_alg_kind_t kind, size_t rows, size_t width)
{
    kept *k = all;

    for (; k < all + n_kept; k++)
        if (k->kind == kind && k->rows == rows && k->width == width)
            return k;
    if (n_kept++ == KEPT_MAX)
        abort();
    *k = (kept){ .kind = kind, .rows = rows, .width = width };
    make(k);
    return k;
}

static void run(const kept *k, const float *x, float *out)
{
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, k->x },
                                     { DNNL_ARG_DST, k->out } };

    check(dnnl_memory_set_data_handle(k->x, (void *)(size_t)x));
    check(dnnl_memory_set_data_handle(k->out, out));
    check(dnnl_primitive_execute(k->primitive, stream, 2, args));
    check(dnnl_stream_wait(stream));
}

void onednn_eltwise(dnnl_alg_kind_t kind, const float *x, float *out, size_t n)
{
    run(find(kind, 1, n), x, out);
}

void onednn_softmax(const float *x, float *out, size_t rows, size_t width)
{
    run(find(dnnl_alg_kind_undef, rows, width), x, out);
}
