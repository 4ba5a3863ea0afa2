/* gemm_bf16_library.c - products of bf16 by oneDNN's matmul.
 *
 * A primitive is code for one shape. It takes milliseconds to make and may be
 * executed by many threads at once, with room of their own; so those of the
 * process are kept in a small table, each counted by the products that use it.
 * A row of the table is chosen by the hash of the shape; when all places of a row
 * are in use, a primitive lives as long as its product.
 *
 * The library says how it wants B for a whole block of rows (`head`). The last
 * block may be shorter (`tail`), and takes B as the others do.
 */
#include "kernel/gemm_bf16.h"

#if FL_BF16_ONEDNN

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/vec.h"
#include "kernel/bf16.h"
#include "kernel/onednn.h"

/* The places of fl_bf16_product.inside. */
enum { HEAD, TAIL };

typedef enum kind { MULTIPLY, REORDER } kind;

/* What a primitive is made for; all of it, so that it can be compared. */
typedef struct key {
    int64_t kind, type; /* REORDER: of the numbers that come */
    int64_t ta, m, n, k, lda, ldc;
    int64_t tb, ldb;    /* REORDER */
    uint64_t packed_by; /* number of the one whose B it takes; 0: it says */
} key;

typedef struct code {
    key key;
    uint64_t number; /* no other one had it before */
    size_t n_users;  /* guarded by the table's mutex */
    bool is_kept;
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t from, packed, to, room;
} code;

#define TABLE_ROWS 128
#define ROW_PLACES 4

static struct {
    fl_mutex mu;
    dnnl_engine_t engine;               /* made once, under mu */
    uint64_t n_made;                    /* guarded by mu */
    code *rows[TABLE_ROWS][ROW_PLACES]; /* guarded by mu */
} table = { .mu = PTHREAD_MUTEX_INITIALIZER };

static fl_status refused(const key *k, const char *what, dnnl_status_t st)
{
    FL_FAIL(FL_ERR_NOMEM,
            "oneDNN %s a product of bf16, %lld x %lld x %lld (its status %d); "
            "FLOTILLA_BF16=emulated does without",
            what, (long long)k->m, (long long)k->n, (long long)k->k, (int)st);
}

/* --- making ----------------------------------------------------------------- */

static dnnl_status_t describe(dnnl_memory_desc_t *out, dnnl_data_type_t type,
                              const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
}

static dnnl_status_t describe_ends(code *c)
{
    const key *k = &c->key;
    dnnl_status_t st = describe(
        &c->from, dnnl_bf16, (dnnl_dims_t){ k->m, k->k },
        k->ta ? (dnnl_dims_t){ 1, k->lda } : (dnnl_dims_t){ k->lda, 1 });

    if (st)
        return st;
    return describe(&c->to, dnnl_f32, (dnnl_dims_t){ k->m, k->n },
                    (dnnl_dims_t){ k->ldc, 1 });
}

/* As `head` has it, or as the library likes. */
static dnnl_status_t describe_b(code *c, const code *head)
{
    if (head) {
        c->packed = head->packed;
        return dnnl_success;
    }
    return dnnl_memory_desc_init_by_tag(&c->packed, 2,
                                        (dnnl_dims_t){ c->key.k, c->key.n },
                                        dnnl_bf16, dnnl_format_tag_any);
}

static dnnl_status_t new_multiply(code *c, const code *head,
                                  const_dnnl_primitive_attr_t attr,
                                  dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t st = describe_ends(c);

    if (!st)
        st = describe_b(c, head);
    if (!st)
        st = dnnl_matmul_desc_init(&op, &c->from, &c->packed, NULL, &c->to);
    if (!st)
        st = dnnl_primitive_desc_create(out, &op, attr, table.engine, NULL);
    if (!st)
        c->packed =
            *dnnl_primitive_desc_query_md(*out, dnnl_query_weights_md, 0);
    return st;
}

static dnnl_status_t new_reorder(code *c, const code *head,
                                 const_dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t *out)
{
    const key *k = &c->key;
    dnnl_status_t st = describe(
        &c->from, (dnnl_data_type_t)k->type, (dnnl_dims_t){ k->k, k->n },
        k->tb ? (dnnl_dims_t){ 1, k->ldb } : (dnnl_dims_t){ k->ldb, 1 });

    c->to = head->packed;
    if (!st)
        st = dnnl_reorder_primitive_desc_create(out, &c->from, table.engine,
                                                &c->to, table.engine, attr);
    return st;
}

/* The caller has the lock. */
static dnnl_status_t make_primitive(code *c, const code *head)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t st = dnnl_success;

    if (!table.engine)
        st = dnnl_engine_create(&table.engine, dnnl_cpu, 0);
    if (!st)
        st = dnnl_primitive_attr_create(&attr);
    if (!st)
        st = dnnl_primitive_attr_set_scratchpad_mode(attr,
                                                     dnnl_scratchpad_mode_user);
    if (!st)
        st = c->key.kind == MULTIPLY ? new_multiply(c, head, attr, &desc)
                                     : new_reorder(c, head, attr, &desc);
    if (!st)
        st = dnnl_primitive_create(&c->primitive, desc);
    if (!st)
        c->room =
            *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    if (desc)
        (void)dnnl_primitive_desc_destroy(desc);
    if (attr)
        (void)dnnl_primitive_attr_destroy(attr);
    return st;
}

static void code_free(code *c)
{
    if (c->primitive)
        (void)dnnl_primitive_destroy(c->primitive);
    fl_free(c);
}

static fl_status code_new(code **out, const key *k, const code *head)
{
    int n_threads = fl_onednn_enter();
    code *c = fl_alloc(sizeof(*c));
    dnnl_status_t st;

    c->key = *k;
    c->number = ++table.n_made;
    st = make_primitive(c, head);
    fl_onednn_leave(n_threads);
    if (st) {
        code_free(c);
        return refused(k, "has no code for", st);
    }
    *out = c;
    return FL_OK;
}

/* --- keeping ----------------------------------------------------------------- */

static code **row_of(const key *k)
{
    return table.rows[fl_hash_bytes(k, sizeof(*k)) % TABLE_ROWS];
}

static code *find(code *const *row, const key *k)
{
    for (int i = 0; i < ROW_PLACES; i++)
        if (row[i] && !memcmp(&row[i]->key, k, sizeof(*k)))
            return row[i];
    return NULL;
}

/* Takes the place of one that nobody uses, if there is one. */
static void keep(code **row, code *c)
{
    for (int i = 0; i < ROW_PLACES; i++)
        if (!row[i] || !row[i]->n_users) {
            if (row[i])
                code_free(row[i]);
            row[i] = c;
            c->is_kept = true;
            return;
        }
}

static fl_status get(void **out, const key *k, const code *head)
{
    fl_status st = FL_OK;
    code **row, *c;

    fl_lock(&table.mu);
    row = row_of(k);
    c = find(row, k);
    if (!c) {
        st = code_new(&c, k, head);
        if (!st)
            keep(row, c);
    }
    if (!st) {
        c->n_users++;
        *out = c;
    }
    fl_unlock(&table.mu);
    return st;
}

static void let_go(code *c)
{
    bool is_last;

    fl_lock(&table.mu);
    c->n_users--;
    is_last = !c->n_users && !c->is_kept;
    fl_unlock(&table.mu);
    if (is_last)
        code_free(c);
}

/* --- a product ---------------------------------------------------------------- */

static void library_release(fl_bf16_product *p)
{
    for (size_t i = FL_LEN(p->inside); i-- > 0;)
        if (p->inside[i])
            let_go(p->inside[i]);
}

static key multiply_key(const fl_gemm_shape *s, int64_t m)
{
    key k;

    memset(&k, 0, sizeof(k));
    k.kind = MULTIPLY;
    k.ta = s->ta;
    k.m = m;
    k.n = s->n;
    k.k = s->k;
    k.lda = s->lda;
    k.ldc = s->ldc;
    return k;
}

static key reorder_key(const fl_gemm_shape *s, dnnl_data_type_t type)
{
    key k = multiply_key(s, 0);

    k.kind = REORDER;
    k.type = type;
    k.ta = k.lda = k.ldc = 0;
    k.tb = s->tb;
    k.ldb = s->ldb;
    return k;
}

/* Whatever the number of rows, B is packed as for a whole block, so that it can
   serve batches of all sizes. A transposed A has its rows in its columns, and
   nothing behind them. */
static fl_status find_code(fl_bf16_product *p)
{
    bool is_short = p->s.m < FL_GEMM_BLOCK;
    key head =
        multiply_key(&p->s, p->s.ta && is_short ? p->s.m : FL_GEMM_BLOCK);
    key tail = multiply_key(&p->s, p->s.m % FL_GEMM_BLOCK);

    FL_TRY(get(&p->inside[HEAD], &head, NULL));
    p->layout = ((const code *)p->inside[HEAD])->number;
    if (!tail.m || head.m == p->s.m)
        return FL_OK;
    tail.packed_by = p->layout;
    return get(&p->inside[TAIL], &tail, p->inside[HEAD]);
}

/* Below AVX-512 the library has no code for bf16, not even emulated. */
static bool library_is_here(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) ==
           dnnl_cpu_isa_avx512_core;
}

static fl_status library_init(fl_bf16_product *p)
{
    fl_status st = find_code(p);

    if (st) {
        library_release(p);
        return st;
    }
    p->packed_bytes =
        dnnl_memory_desc_get_size(&((const code *)p->inside[HEAD])->packed);
    for (int i = HEAD; i <= TAIL && p->inside[i]; i++) {
        const code *c = p->inside[i];
        size_t bytes = dnnl_memory_desc_get_size(&c->room);

        p->room_bytes = bytes > p->room_bytes ? bytes : p->room_bytes;
    }
    return FL_OK;
}

/* --- running ------------------------------------------------------------------ */

#define ARGS_MAX 4

/* Memory for one execution. */
typedef struct call {
    dnnl_exec_arg_t args[ARGS_MAX];
    int n;
    dnnl_status_t st;
} call;

static void add_arg(call *x, int what, const dnnl_memory_desc_t *desc,
                    const void *data)
{
    if (x->st)
        return;
    x->st = dnnl_memory_create(&x->args[x->n].memory, desc, table.engine,
                               (void *)(uintptr_t)data);
    x->args[x->n].arg = what;
    x->n += !x->st;
}

static fl_status execute(call *x, const code *c)
{
    dnnl_stream_t stream = NULL;
    int n_threads = fl_onednn_enter();

    if (!x->st)
        x->st = dnnl_stream_create(&stream, table.engine,
                                   dnnl_stream_default_flags);
    if (!x->st)
        x->st = dnnl_primitive_execute(c->primitive, stream, x->n, x->args);
    if (!x->st)
        x->st = dnnl_stream_wait(stream);
    if (stream)
        (void)dnnl_stream_destroy(stream);
    fl_onednn_leave(n_threads);
    for (int i = 0; i < x->n; i++)
        (void)dnnl_memory_destroy(x->args[i].memory);
    return x->st ? refused(&c->key, "refused", x->st) : FL_OK;
}

/* The scratchpad of a reorder, which few need. */
static fl_status reorder(const code *c, const void *b, void *packed)
{
    size_t bytes = dnnl_memory_desc_get_size(&c->room);
    void *room = bytes ? fl_try_alloc(bytes) : NULL;
    call x = { 0 };
    fl_status st;

    if (bytes && !room)
        FL_FAIL(FL_ERR_NOMEM, "no memory to pack the weights of a product");
    add_arg(&x, DNNL_ARG_FROM, &c->from, b);
    add_arg(&x, DNNL_ARG_TO, &c->to, packed);
    add_arg(&x, DNNL_ARG_SCRATCHPAD, &c->room, room);
    st = execute(&x, c);
    fl_data_free(room, bytes);
    return st;
}

static fl_status pack(const fl_bf16_product *p, dnnl_data_type_t type,
                      const void *b, void *packed)
{
    const code *head = p->inside[HEAD];
    key k = reorder_key(&p->s, type);
    fl_status st;
    void *c;

    k.packed_by = head->number;
    FL_TRY(get(&c, &k, head));
    st = reorder(c, b, packed);
    let_go(c);
    return st;
}

static fl_status library_pack_f32(const fl_bf16_product *p, const float *b,
                                  void *packed)
{
    return pack(p, dnnl_f32, b, packed);
}

static fl_status library_pack_bf16(const fl_bf16_product *p, const uint16_t *b,
                                   void *packed)
{
    return pack(p, dnnl_bf16, b, packed);
}

static fl_status multiply(const code *c, const fl_bf16_args *args)
{
    call x = { 0 };

    add_arg(&x, DNNL_ARG_SRC, &c->from, args->a);
    add_arg(&x, DNNL_ARG_WEIGHTS, &c->packed, args->packed);
    add_arg(&x, DNNL_ARG_DST, &c->to, args->c);
    add_arg(&x, DNNL_ARG_SCRATCHPAD, &c->room, args->room);
    return execute(&x, c);
}

static fl_status library_rows(const fl_bf16_product *p, int64_t lo, int64_t hi,
                              const fl_bf16_args *args)
{
    const fl_gemm_shape *s = &p->s;

    for (int64_t i = lo; i < hi; i += FL_GEMM_BLOCK) {
        bool is_tail = hi - i < FL_GEMM_BLOCK && p->inside[TAIL];
        fl_bf16_args part = *args;

        part.a += s->ta ? i : i * s->lda;
        part.c += i * s->ldc;
        FL_TRY(multiply(p->inside[is_tail ? TAIL : HEAD], &part));
    }
    return FL_OK;
}

extern const fl_bf16_way fl_bf16_library;
const fl_bf16_way fl_bf16_library = {
    .name = "library",
    .is_here = library_is_here,
    .terms = 32, /* so that there are few lengths to write code for */
    .narrow = fl_bf16_narrow,
    .init = library_init,
    .release = library_release,
    .pack_f32 = library_pack_f32,
    .pack_bf16 = library_pack_bf16,
    .rows = library_rows,
};

#else
typedef int fl_no_library; /* a file may not be empty */
#endif
