/* train_io.c - the models that `flotilla train` begins with and leaves
 * behind. */
#include "train.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A list of words, cut out of one text. */
typedef struct list {
    char *text;
    const char **words;
    size_t n;
} list;

static fl_status cut_list(list *out, const char *text)
{
    size_t cap = 1;

    *out = (list){ 0 };
    if (!text)
        return FL_OK;
    for (const char *c = text; *c; c++)
        cap += *c == ',';
    out->text = strdup(text);
    out->words = calloc(cap, sizeof(*out->words));
    if (!out->text || !out->words)
        return FL_ERR_NOMEM;
    for (char *at = out->text; at;) {
        char *comma = strchr(at, ',');

        if (comma)
            *comma++ = '\0';
        out->words[out->n++] = at;
        at = comma;
    }
    return FL_OK;
}

static void free_list(list *l)
{
    free(l->words);
    free(l->text);
}

/* Told before hours of training, not behind them. */
static bool is_file(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && !S_ISDIR(is.st_mode);
}

static bool is_word(const char *text, const char *a, const char *b)
{
    return !text || !strcmp(text, a) || !strcmp(text, b);
}

static bool is_delta(const train_args *a)
{
    return a->save && a->save_kind && !strcmp(a->save_kind, "delta");
}

int train_check_io(const char *self, const train_args *a)
{
    if (!a->save && a->save_kind)
        return cmd_misused(self, "where to save? --save DIR says it");
    if (!is_word(a->save_kind, "full", "delta"))
        return cmd_misused(self, "--save-kind is full or delta, not '%s'",
                           a->save_kind);
    if (!a->infer && (a->infer_delta || a->infer_by_score))
        return cmd_misused(self, "where to save what predictions need? --infer "
                                 "DIR says it");
    if (a->infer && is_file(a->infer))
        return cmd_misused(self, "--infer %s: that is a file; name a folder",
                           a->infer);
    if (a->save && is_file(a->save))
        return cmd_misused(self, "--save %s: that is a file; name a folder",
                           a->save);
    if (!a->load &&
        (a->load_only || a->load_map || a->load_resize || a->load_state))
        return cmd_misused(self, "what is to be loaded? --load DIR says it");
    if (!is_word(a->load_state, "saved", "new"))
        return cmd_misused(self, "--load-state is saved or new, not '%s'",
                           a->load_state);
    return CMD_OK;
}

bool train_wants_delta(const train_args *a)
{
    return is_delta(a);
}

fl_status train_load(fl_executor *e, const train_args *a)
{
    list only, map, resize;
    fl_status st;

    if (!a->load)
        return FL_OK;
    st = cut_list(&only, a->load_only);
    st = cut_list(&map, a->load_map) | st;
    st = cut_list(&resize, a->load_resize) | st;
    if (!st)
        st = fl_load_vars(
            e, a->load, NULL,
            FL_OPTIONS(
                fl_load_args,
                .fresh_state = a->load_state && !strcmp(a->load_state, "new"),
                .names = only.words, .n_names = only.n, .renames = map.words,
                .n_renames = map.n, .resizes = resize.words,
                .n_resizes = resize.n, .delta = is_delta(a)));
    free_list(&only);
    free_list(&map);
    free_list(&resize);
    return st;
}

fl_status train_save(fl_executor *e, const train_args *a)
{
    if (!a->save)
        return FL_OK;
    return fl_save_vars(e, a->save, NULL,
                        FL_OPTIONS(fl_save_args, .delta = is_delta(a)));
}

fl_status train_save_infer(fl_executor *e, const train_args *a,
                           const model_net *net)
{
    const char *target = fl_var_name(net->prediction);

    return fl_save_inference_model(e, a->infer, .targets = &target,
                                   .n_targets = 1, .delta = a->infer_delta,
                                   .by_score = a->infer_by_score);
}
