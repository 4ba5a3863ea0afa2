/* load_plan.c - which variables of a model go where. */
#include "ckpt/load_plan.h"

#include <string.h>

#include "ckpt/array.h"

static void init(fl_load_plan *p)
{
    *p = (fl_load_plan){ 0 };
    fl_arena_init(&p->arena, 4096);
}

void fl_load_plan_release(fl_load_plan *p)
{
    fl_vec_release(&p->items);
    fl_map_release(&p->by_name);
    fl_arena_release(&p->arena);
}

static void add(fl_load_plan *p, const fl_load_item *item)
{
    fl_vec_push(&p->items, *item);
    fl_map_put(&p->by_name, item->name, (void *)(uintptr_t)p->items.len);
}

const fl_load_item *fl_load_plan_find(const fl_load_plan *p, const char *name)
{
    uintptr_t at = (uintptr_t)fl_map_find(&p->by_name, name);

    return at ? &p->items.data[at - 1] : NULL;
}

/* --- making --------------------------------------------------------------- */

static fl_status match(fl_load_plan *p, const fl_match_set *program,
                       const fl_match_set *model, const fl_match_options *o)
{
    fl_match_pairs pairs = { 0 };
    fl_status st = fl_match(program, model, o, &pairs);

    for (size_t i = 0; i < pairs.len && !st; i++)
        add(p, &(fl_load_item){
                   .name = fl_arena_strdup(
                       &p->arena, program->items[pairs.data[i].want].name),
                   .saved = fl_arena_strdup(
                       &p->arena, model->items[pairs.data[i].have].name),
                   .is_resized = pairs.data[i].is_resized });
    fl_vec_release(&pairs);
    return st;
}

fl_status fl_load_plan_make(fl_load_plan *out, const fl_program *p,
                            const fl_model_version *v, const fl_load_wish *wish)
{
    fl_match_set program, model;
    fl_load_plan plan;
    fl_status st;

    init(&plan);
    plan.is_all = !wish->match.n_names && !wish->params_only;
    plan.is_fresh_state = wish->match.is_fresh_state;
    program = fl_match_program(p, wish->params_only, &plan.arena);
    model = fl_match_saved(&v->manifest,
                           fl_arena_printf(&plan.arena, "model %s", v->dir),
                           &plan.arena);
    model = fl_array_set(&v->manifest, &program, &model, &plan.arena);
    st = match(&plan, &program, &model, &wish->match);
    if (st)
        fl_load_plan_release(&plan);
    else
        *out = plan;
    return st;
}

/* --- as text -------------------------------------------------------------- */

char *fl_load_plan_print(const fl_load_plan *p)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "%s%s\n", p->is_all ? "all" : "some",
                p->is_fresh_state ? " new" : "");
    for (size_t i = 0; i < p->items.len; i++) {
        const fl_load_item *item = &p->items.data[i];

        fl_str_addf(&s, "%s %s %s\n", item->name, item->saved,
                    item->is_resized ? "~" : "=");
    }
    return fl_str_take(&s);
}

/* The next word of a line, which ends with `end`; NULL: there is none. */
static char *take_word(char **at, char end)
{
    char *word = *at, *stop = word;

    while (*stop && *stop != ' ' && *stop != '\n')
        stop++;
    if (*stop != end || stop == word)
        return NULL;
    *stop = '\0';
    *at = stop + 1;
    return word;
}

static bool parse_head(fl_load_plan *p, char **at)
{
    static const struct {
        const char *line;
        bool is_all, is_fresh_state;
    } heads[] = {
        { "all\n", true, false },
        { "some\n", false, false },
        { "all new\n", true, true },
        { "some new\n", false, true },
    };

    for (size_t i = 0; i < FL_LEN(heads); i++)
        if (!strncmp(*at, heads[i].line, strlen(heads[i].line))) {
            p->is_all = heads[i].is_all;
            p->is_fresh_state = heads[i].is_fresh_state;
            *at += strlen(heads[i].line);
            return true;
        }
    return false;
}

static bool parse_item(fl_load_plan *p, char **at)
{
    fl_load_item item = { .name = take_word(at, ' ') };
    char *how;

    if (item.name)
        item.saved = take_word(at, ' ');
    how = item.saved ? take_word(at, '\n') : NULL;
    if (!how || (strcmp(how, "=") != 0 && strcmp(how, "~") != 0))
        return false;
    item.is_resized = *how == '~';
    add(p, &item);
    return true;
}

fl_status fl_load_plan_parse(fl_load_plan *out, const char *text, size_t len)
{
    fl_load_plan p;
    bool is_good;
    char *at;

    init(&p);
    at = fl_arena_printf(&p.arena, "%.*s", (int)len, text);
    is_good = parse_head(&p, &at);
    while (is_good && *at)
        is_good = parse_item(&p, &at);
    if (!is_good) {
        fl_load_plan_release(&p);
        FL_FAIL(FL_ERR_CORRUPT,
                "what of a model is to be loaded, %zu bytes, does not parse",
                len);
    }
    *out = p;
    return FL_OK;
}
