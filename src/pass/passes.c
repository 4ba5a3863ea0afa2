/* passes.c - the only place that expands the list of passes, and the runner of
 * those that a single program takes. */
#include "pass/runner.h"

#include "flotilla/words.h"

#define FL_PASS(name) extern const fl_pass fl_pass_##name;
#include "pass/passes.def"
#undef FL_PASS

static const fl_pass *const all[] = {
#define FL_PASS(name) &fl_pass_##name,
#include "pass/passes.def"
#undef FL_PASS
};

size_t fl_pass_count(void)
{
    return FL_LEN(all);
}

const fl_pass *fl_pass_at(size_t i)
{
    return all[i];
}

const fl_pass *fl_pass_find_part(const char *name, size_t len)
{
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (strlen(all[i]->name) == len && !strncmp(all[i]->name, name, len))
            return all[i];
    return NULL;
}

const fl_pass *fl_pass_find(const char *name)
{
    return fl_pass_find_part(name, strlen(name));
}

fl_status fl_pass_no_such(const char *name, size_t len)
{
    const char *names[FL_LEN(all)];
    char word[64];
    const char *near;

    snprintf(word, sizeof(word), "%.*s", (int)len, name);
    for (size_t i = 0; i < FL_LEN(all); i++)
        names[i] = all[i]->name;
    near = fl_nearest_name(word, names, FL_LEN(all));
    FL_FAIL(FL_ERR_NOTFOUND, "no pass is called '%s'%s%s%s", word,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

bool fl_pass_next_name(const char **at, const char **name, size_t *len)
{
    *at += strspn(*at, ", ");
    *name = *at;
    *len = strcspn(*at, ", ");
    *at += *len;
    return *len > 0;
}

static fl_status check_skip(const char *skip)
{
    const char *name;
    size_t len;

    while (fl_pass_next_name(&skip, &name, &len)) {
        const fl_pass *pass = fl_pass_find_part(name, len);

        if (!pass)
            return fl_pass_no_such(name, len);
        if (!pass->run && !pass->mark)
            FL_FAIL(FL_ERR_INVAL,
                    "pass %s is part of a training mode and cannot be left out",
                    pass->name);
        if (pass->required)
            FL_FAIL(FL_ERR_INVAL, "pass %s is required and cannot be left out",
                    pass->name);
    }
    return FL_OK;
}

static bool is_left_out(const fl_pass *pass, const fl_pass_options *o)
{
    const char *skip = o->skip ? o->skip : "";
    const char *name;
    size_t len;

    if (pass->mark)
        return !o->precision.is_bf16;
    if (!pass->run || (!o->optimize && !pass->required) ||
        (pass->only_frozen && !o->is_frozen))
        return true;
    while (fl_pass_next_name(&skip, &name, &len))
        if (fl_pass_find_part(name, len) == pass)
            return true;
    return false;
}

typedef struct turn {
    const fl_pass *pass;
    int number;
} turn;

static fl_status run_one(fl_program *p, const turn *t, const fl_pass_options *o,
                         const char *folder)
{
    const fl_pass *pass = t->pass;
    const fl_dump_text to = { folder, NULL, t->number, pass->name };
    bool changed = false;
    fl_status st = pass->mark ? pass->mark(p, &o->precision, &changed)
                              : pass->run(p, &changed);

    if (!st && changed)
        st = fl_program_verify(p);
    if (!st && changed)
        st = fl_pass_dump(&to, p);
    return fl_err_ctx(st, "pass %s", pass->name);
}

static fl_status run_all(fl_program *p, const fl_pass_options *o,
                         const char *folder)
{
    const fl_dump_text input = { folder, NULL, 0, "input" };
    int number = 0;

    FL_TRY(fl_pass_dump(&input, p));
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (!is_left_out(all[i], o))
            FL_TRY(run_one(p, &(turn){ all[i], ++number }, o, folder));
    return FL_OK;
}

fl_status fl_passes_run(fl_program *p, const fl_pass_options *o)
{
    char *folder;
    fl_status st;

    FL_TRY(check_skip(o->skip ? o->skip : ""));
    FL_TRY(fl_pass_dump_begin(&o->dump, &folder));
    st = run_all(p, o, folder);
    fl_free(folder);
    return st;
}
