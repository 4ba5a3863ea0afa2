/* delta_kit.h - deltas to a model of serve_kit.h, whose rows are in a table. */
#ifndef FL_TESTS_SERVE_DELTA_KIT_H
#define FL_TESTS_SERVE_DELTA_KIT_H

#include "serve_kit.h"

#include "ckpt/dense.h"
#include "ckpt/table_file.h"
#include "table/cut.h"

static const fl_layers_embedding_args kit_in_table = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .is_distributed = true,
    .param = { .name = "emb" },
};

/* Everything that the base has of dense variables, as the scope has it now. */
static inline void kit_put_dense(kit_net *n, fl_model_version *v,
                                 fl_manifest *m, const char *base)
{
    fl_named_tensor all[8];
    fl_model_version *b;
    const fl_manifest_file *f;

    must(fl_version_open(&b, base));
    f = fl_manifest_find_file(&b->manifest, FL_DENSE_FILE);
    assert_true(f->n_tensors <= FL_LEN(all));
    for (size_t i = 0; i < f->n_tensors; i++) {
        all[i].name = f->tensors[i].name;
        must(fl_scope_get(fl_current_scope(n->c), all[i].name, &all[i].value));
    }
    must(fl_dense_save(v, m, FL_DENSE_FILE, all, f->n_tensors));
    fl_version_close(b);
}

/* What changed since `since`, on top of the version that counts. */
static inline uint32_t kit_save_delta(kit_net *n, const char *dir,
                                      uint32_t since)
{
    fl_cut_options o = { .since = since, .watch = true };
    fl_table_save_options how = { .last = FL_TABLE_SHARDS - 1,
                                  .values_only = true };
    char base[FL_VERSION_ID_MAX];
    fl_manifest m;
    fl_model_version *v;
    fl_table *t;
    uint32_t epoch;

    must(fl_version_open(&v, dir));
    memcpy(base, v->id, sizeof(base));
    fl_version_close(v);
    must(fl_ctx_table(n->c, "emb", &t));
    must(fl_table_cut_begin(&how.cut, t, &o));
    epoch = fl_table_cut_moment(how.cut)->epoch;
    must(fl_version_begin(&v, dir, &(fl_version_options){ .keep = 1 }));
    fl_manifest_init(&m, FL_MANIFEST_DELTA);
    m.base = base;
    kit_put_dense(n, v, &m, dir);
    must(fl_table_file_write(v, &m, &how));
    must(fl_version_commit(v, &m));
    fl_version_close(v);
    fl_manifest_release(&m);
    fl_table_cut_end(how.cut);
    return epoch;
}

#endif
