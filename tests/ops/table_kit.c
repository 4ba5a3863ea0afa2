/* table_kit.c - see table_kit.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "table_kit.h"

static const char *const variables = "var a : i64[-1,1] data lod=1\n"
                                     "var b : u64[-1,1] data\n"
                                     "var keys : u64[-1] data\n"
                                     "var lr : f32[1] data\n"
                                     "var g : f32[-1,3] data\n"
                                     "var r : f32[-1,3] data rows\n"
                                     "var i : i64[-1,1] data lod=1\n"
                                     "var j : i64[-1,1] data\n"
                                     "var k : i64[-1,1] data lod=2\n"
                                     "var show : f32[-1,1] data\n"
                                     "var click : i64[-1] data\n"
                                     "param emb : f32[-1,3] table\n";

static void count(fl_waker *w)
{
    ((counter *)w)->n++;
}

static void forget(table_op *f)
{
    if (f->keep && f->keep_free)
        f->keep_free(f->keep);
    fl_free(f->keep);
    f->keep = NULL;
    fl_program_free(f->program);
    f->program = NULL;
}

int table_op_set_up(void **state)
{
    table_op *f = fl_alloc(sizeof(*f));

    f->fake = fake_comm_new();
    f->comm = &f->fake->port;
    f->waker.waker.wake = count;
    fl_arena_init(&f->scratch, 4 << 10);
    *state = f;
    return f->comm->life->declare(f->comm, "t", "dim=3", 0) ? -1 : 0;
}

int table_op_tear_down(void **state)
{
    table_op *f = *state;

    forget(f);
    fl_comm_free(&f->fake->port);
    fl_arena_release(&f->scratch);
    fl_free(f);
    return 0;
}

fl_status table_op_parse(const char *op, fl_program **out)
{
    char text[TEXT_MAX];

    snprintf(text, sizeof(text), "%s%s\n", variables, op);
    return fl_program_parse(text, &fl_ops, out);
}

void table_op_begin(table_op *f, const char *op)
{
    forget(f);
    if (table_op_parse(op, &f->program))
        fail_msg("%s", fl_last_error());
    f->node = fl_program_main(f->program)->first;
    f->n_tensors = 0;
    memset(f->in, 0, sizeof(f->in));
    memset(f->out, 0, sizeof(f->out));
}

void table_op_give(table_op *f, int slot, fl_tensor t)
{
    fl_targs *a = &f->in[slot];

    a->t = f->in_ptr[slot];
    f->tensors[f->n_tensors] = t;
    a->t[a->n++] = &f->tensors[f->n_tensors++];
}

static void make_room(table_op *f)
{
    for (int s = 0; s < fl_node_n_out(f->node); s++) {
        f->out[s].n = f->node->out[s].n;
        f->out[s].t = f->out_ptr[s];
        for (int i = 0; i < f->out[s].n; i++) {
            fl_tensor *t = &f->tensors[f->n_tensors];

            t->data = f->room[f->n_tensors++];
            f->out[s].t[i] = t;
        }
    }
}

fl_status table_op_call(table_op *f, bool resumed)
{
    fl_op_ctx c = { .node = f->node,
                    .in = f->in,
                    .out = f->out,
                    .nth = 1,
                    .scratch = &f->scratch,
                    .seed = 5,
                    .keep = &f->keep,
                    .keep_free = &f->keep_free,
                    .comm = f->comm,
                    .waker = &f->waker.waker,
                    .resumed = resumed };
    fl_status st = f->node->def->run(&c);

    fl_arena_clear(&f->scratch);
    return st;
}

fl_status table_op_run(table_op *f)
{
    fl_infer infer = { f->node, f->in, f->out, true, NULL };

    make_room(f);
    if (f->node->def->infer(&infer))
        fail_msg("%s", fl_last_error());
    return table_op_call(f, false);
}

void expect_said(const char *part)
{
    if (!strstr(fl_last_error(), part))
        fail_msg("'%s' does not say '%s'", fl_last_error(), part);
}

fl_tensor ids_of(const int64_t *ids, int64_t n)
{
    return fl_tensor_of(FL_DTYPE_I64, ids, 2, (int64_t[]){ n, 1 });
}

fl_tensor list_of(const int64_t *ids, const int64_t *offsets, int64_t n_seq)
{
    return fl_tensor_ragged(FL_DTYPE_I64, ids, 2,
                            (int64_t[]){ offsets[n_seq], 1 }, offsets, n_seq);
}
