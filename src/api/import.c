/* import.c - models of PaddlePaddle 1.8 become versions of ours. */
#include "flotilla/saved.h"

#include <inttypes.h>

#include "api/import.h"
#include "base/args.h"
#include "base/log.h"
#include "ckpt/dense.h"
#include "ckpt/remote.h"
#include "ctx/ctx.h"
#include "ops/ops.h"

typedef FL_VEC(fl_named_tensor) named_tensors;

/* Offsets of sequences that a persistent variable was saved with say nothing
   about its values. */
static void collect(const fl_p18_model *p, named_tensors *out)
{
    const fl_p18_var *v;

    for (size_t i = 0; (v = fl_p18_var_at(p, i)); i++) {
        if (v->value.is_rows)
            continue;
        if (v->value.n_lod)
            FL_WARN("import",
                    "%s had %" PRIu64 " levels of sequences, which "
                    "are left out",
                    v->name, v->value.n_lod);
        fl_vec_push(out, ((fl_named_tensor){ v->name, v->value.tensor }));
    }
}

static fl_status put_tables(const fl_model_version *v, fl_manifest *m,
                            const fl_p18_model *p)
{
    const fl_p18_var *var;

    for (size_t i = 0; (var = fl_p18_var_at(p, i)); i++)
        if (var->value.is_rows)
            FL_TRY(fl_import_rows(v, m, var));
    return FL_OK;
}

static fl_status put_program(const fl_model_version *v, fl_manifest *m,
                             const char *name, const fl_program *p)
{
    char *text = fl_program_print(p);
    fl_status st = fl_version_put(v, m, name, text, strlen(text));

    fl_free(text);
    return st;
}

/* The first values are those of the model, so nothing is left for the startup
   program. */
static fl_status put_programs(const fl_model_version *v, fl_manifest *m,
                              const fl_p18_program *p)
{
    fl_program *startup = fl_program_of(&fl_ops);
    fl_status st = put_program(v, m, "program.txt", p->program);

    if (!st)
        st = put_program(v, m, "startup.txt", startup);
    fl_program_free(startup);
    return st;
}

static fl_status fill(const fl_model_version *v, fl_manifest *m,
                      const fl_p18_model *p)
{
    const fl_p18_program *program = fl_p18_program_of(p);
    named_tensors tensors = { 0 };
    fl_status st = FL_OK;

    if (program->program)
        st = put_programs(v, m, program);
    if (program->targets.len)
        fl_manifest_set_inference(m, program->feeds.data, program->feeds.len,
                                  program->targets.data, program->targets.len);
    collect(p, &tensors);
    if (!st)
        st = fl_dense_save(v, m, FL_DENSE_FILE, tensors.data, tensors.len);
    if (!st)
        st = put_tables(v, m, p);
    fl_vec_release(&tensors);
    return st;
}

static fl_status save(const fl_p18_model *p, const char *dir)
{
    bool is_inference = fl_p18_program_of(p)->targets.len > 0;
    fl_model_version *v = NULL;
    fl_manifest m;
    fl_status st;

    FL_TRY(fl_version_begin(&v, dir, NULL));
    fl_manifest_init(&m,
                     is_inference ? FL_MANIFEST_INFERENCE : FL_MANIFEST_FULL);
    st = fill(v, &m, p);
    if (!st)
        st = fl_version_commit(v, &m);
    fl_manifest_release(&m);
    fl_version_close(v);
    return st;
}

fl_status fl_import_paddle(fl_ctx *c, const char *from, const char *dir,
                           const fl_import_args *args)
{
    fl_import_args a;
    fl_p18_model *p = NULL;
    char *local = NULL;
    fl_status st;

    FL_TRY(FL_ARGS_READ(fl_import_args, &a, args));
    FL_TRY(fl_p18_open(&p, from,
                       &(fl_p18_args){ .program = a.program,
                                       .params = a.params,
                                       .names = a.names,
                                       .n_names = a.n_names },
                       &fl_ops));
    st = fl_remote_place(&c->conf, dir, &local);
    if (!st)
        st = save(p, local);
    if (!st)
        st = fl_remote_publish(&c->conf, dir);
    fl_p18_close(p);
    fl_free(local);
    return st;
}
