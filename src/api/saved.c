/* saved.c - saved models, looked into: what a version says, and its dense
 * variables. */
#include "flotilla/saved.h"

#include <string.h>

#include "api/saved.h"
#include "base/args.h"
#include "ckpt/dense.h"
#include "ckpt/folder.h"
#include "ckpt/remote.h"
#include "ctx/ctx.h"
#include "flotilla/words.h"

static fl_status open_version(fl_saved *s, const fl_ctx *c, const char *model)
{
    char *local = NULL;
    fl_status st = fl_remote_fetch(&c->conf, model, &local);

    if (!st)
        st = fl_version_open(&s->version, local);
    fl_free(local);
    FL_TRY(st);
    FL_TRY(fl_folder_list(s->version->dir, &s->beside));
    if (fl_manifest_find_file(&s->version->manifest, FL_DENSE_FILE))
        FL_TRY(fl_version_map(s->version, FL_DENSE_FILE, &s->dense));
    return FL_OK;
}

fl_status fl_saved_open(fl_saved **out, fl_ctx *c, const char *model)
{
    fl_saved *s = fl_alloc(sizeof(*s));
    fl_status st = open_version(s, c, model);

    if (st)
        fl_saved_close(s);
    else
        *out = s;
    return st;
}

void fl_saved_close(fl_saved *s)
{
    if (!s)
        return;
    fl_st_close(s->dense);
    fl_version_names_release(&s->beside);
    fl_version_close(s->version);
    fl_free(s);
}

char *fl_saved_fetch(fl_ctx *c, const char *model)
{
    char *local = NULL;

    return fl_remote_fetch(&c->conf, model, &local) ? NULL : local;
}

/* --- what it says --------------------------------------------------------- */

static uint64_t count_bytes(const fl_manifest *m)
{
    uint64_t n = 0;

    for (size_t i = 0; i < m->files.len; i++)
        n += m->files.data[i].bytes;
    return n;
}

static size_t count_tensors(const fl_saved *s)
{
    const fl_manifest_file *f =
        fl_manifest_find_file(&s->version->manifest, FL_DENSE_FILE);

    return f ? f->n_tensors : 0;
}

fl_status fl_saved_look(const fl_saved *s, fl_saved_view *out)
{
    const fl_manifest *m = &s->version->manifest;
    fl_saved_view v = {
        .size = sizeof(v),
        .id = m->id,
        .kind = fl_manifest_kind_text(m->kind),
        .base = m->base,
        .mode = m->mode,
        .writer = m->writer,
        .path = s->version->path,
        .step = m->step,
        .seed = m->seed,
        .bytes = count_bytes(m),
        .time = m->time,
        .n_files = m->files.len,
        .n_tensors = count_tensors(s),
        .n_tables = m->tables.len,
        .n_feeds = m->n_feeds,
        .n_targets = m->n_targets,
    };

    return FL_ARGS_FILL(fl_saved_view, out, &v);
}

const char *fl_saved_version(const fl_saved *s, size_t i)
{
    return i < s->beside.len ? s->beside.data[i] : NULL;
}

const char *fl_saved_feed(const fl_saved *s, size_t i)
{
    const fl_manifest *m = &s->version->manifest;

    return i < m->n_feeds ? m->feeds[i] : NULL;
}

const char *fl_saved_target(const fl_saved *s, size_t i)
{
    const fl_manifest *m = &s->version->manifest;

    return i < m->n_targets ? m->targets[i] : NULL;
}

char *fl_saved_text(const fl_saved *s, const char *file)
{
    char *text = NULL;
    size_t len;

    return fl_version_read(s->version, file, &text, &len) ? NULL : text;
}

fl_status fl_saved_verify(const fl_saved *s)
{
    return fl_version_verify(s->version);
}

/* --- dense variables ------------------------------------------------------ */

static fl_status view_tensor(const fl_saved *s, const fl_st_tensor *t,
                             fl_tensor *out)
{
    if (t->type == FL_ST_U32)
        FL_FAIL(FL_ERR_TYPE, "tensor %s is of type U32, which no variable has",
                t->name);
    *out = fl_tensor_of((fl_dtype)t->type, fl_st_bytes(s->dense, t),
                        t->shape.rank, t->shape.dim);
    out->flags |= FL_TENSOR_READ_ONLY;
    return FL_OK;
}

fl_status fl_saved_tensor(const fl_saved *s, size_t i, const char **name,
                          fl_tensor *out)
{
    const fl_manifest_file *f =
        fl_manifest_find_file(&s->version->manifest, FL_DENSE_FILE);

    if (!f || i >= f->n_tensors)
        FL_FAIL(FL_ERR_NOTFOUND, "model %s has %zu variables", s->version->path,
                f ? f->n_tensors : 0);
    *name = f->tensors[i].name;
    return view_tensor(s, fl_st_find(s->dense, *name), out);
}

static fl_status no_tensor(const fl_saved *s, const char *name)
{
    const fl_manifest_file *f =
        fl_manifest_find_file(&s->version->manifest, FL_DENSE_FILE);
    FL_VEC(const char *) names = { 0 };
    const char *near;

    for (size_t i = 0; f && i < f->n_tensors; i++)
        fl_vec_push(&names, f->tensors[i].name);
    near = fl_nearest_name(name, names.data, names.len);
    fl_vec_release(&names);
    FL_FAIL(FL_ERR_NOTFOUND, "model %s has no variable %s%s%s%s",
            s->version->path, name, near ? "; did you mean " : "",
            near ? near : "", near ? "?" : "");
}

fl_status fl_saved_find(const fl_saved *s, const char *name, fl_tensor *out)
{
    const fl_st_tensor *t = s->dense ? fl_st_find(s->dense, name) : NULL;

    return t ? view_tensor(s, t, out) : no_tensor(s, name);
}

/* --- tables --------------------------------------------------------------- */

fl_status fl_saved_table_at(const fl_saved *s, size_t i, fl_saved_table *out)
{
    const fl_manifest *m = &s->version->manifest;
    const fl_manifest_table *t;
    fl_saved_table v;

    if (i >= m->tables.len)
        FL_FAIL(FL_ERR_NOTFOUND, "model %s has %zu tables", s->version->path,
                m->tables.len);
    t = &m->tables.data[i];
    v = (fl_saved_table){ .size = sizeof(v),
                          .name = t->name,
                          .settings = t->settings,
                          .accessor = t->accessor,
                          .rows = t->rows,
                          .short_rows = t->short_rows,
                          .candidates = t->candidates,
                          .epoch = t->epoch,
                          .n_days = t->n_days,
                          .n_fields = t->n_fields };
    return FL_ARGS_FILL(fl_saved_table, out, &v);
}
