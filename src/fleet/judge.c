/* judge.c - measures by their names, over one evaluation for each key.
 *
 *     auc,logloss,recall@20:user,gauc:item
 *
 * Evaluations are those of eval.c: one whose groups are users, one whose groups
 * are items. What needs no groups is of the first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "conf/words.h"
#include "fleet/eval_asked.h"

/* What stands behind the name. */
typedef enum judged_form {
    FORM_ALONE,
    FORM_KEY,   /* :KEY */
    FORM_SCORE, /* @SCORE */
    FORM_TOP    /* @K:KEY */
} judged_form;

typedef struct judged {
    const char *name, *doc;
    judged_form form;
    bool of_numbers;    /* also where predictions are no chances */
    int better;         /* when it is larger: 1; smaller: -1 */
    size_t field;       /* of fl_eval_figures */
    fl_asked_add asked; /* or this */
} judged;

#define FIELD(name) offsetof(fl_eval_figures, name)

static const judged all[] = {
#define FL_FIGURE(name, better, field, doc)                                    \
    { #name, doc, FORM_ALONE, false, better, FIELD(field), NULL },
#define FL_OF_NUMBERS(name, better, field, doc)                                \
    { #name, doc, FORM_ALONE, true, better, FIELD(field), NULL },
#define FL_GROUP_FIGURE(name, field, doc)                                      \
    { #name, doc, FORM_KEY, false, 1, FIELD(field), NULL },
#define FL_BY_SCORE(name, add, doc)                                            \
    { #name, doc, FORM_SCORE, false, 1, 0, add },
#define FL_BY_GROUP(name, add, doc) { #name, doc, FORM_TOP, true, 1, 0, add },
#include "fleet/judged.def"
#undef FL_FIGURE
#undef FL_OF_NUMBERS
#undef FL_GROUP_FIGURE
#undef FL_BY_SCORE
#undef FL_BY_GROUP
};

#define NAME_MAX_BYTES 128
#define TOP_MAX 1e9

typedef struct measure {
    const judged *kind;
    char *text;   /* as it was asked for */
    size_t eval;  /* which one makes it */
    size_t asked; /* its number there, when it is asked for */
} measure;

typedef FL_VEC(fl_eval *) evals;
typedef FL_VEC(measure) measures;

struct fl_judge {
    bool is_of_numbers;
    measures measures;
    FL_VEC(char *) keys; /* of each evaluation; none: there is one without */
    evals evals;
    FL_VEC(int64_t) classes;  /* of the batch at hand */
    fl_eval_figures *figures; /* of each evaluation, at the end */
};

/* --- names ----------------------------------------------------------------- */

/* One word of the list, cut: NAME[@NUMBER][:KEY]. */
typedef struct asked_text {
    char name[NAME_MAX_BYTES];
    const char *number, *key; /* NULL: not there */
} asked_text;

static fl_status cut(const char *word, asked_text *out)
{
    char *colon, *at;

    if (strlen(word) >= sizeof(out->name))
        FL_FAIL(FL_ERR_INVAL,
                "metric %.20s... has a name of more than %d bytes", word,
                NAME_MAX_BYTES - 1);
    *out = (asked_text){ 0 };
    memcpy(out->name, word, strlen(word));
    colon = strchr(out->name, ':');
    at = strchr(out->name, '@');
    if (colon)
        out->key = colon + 1;
    if (at)
        out->number = at + 1;
    if (colon)
        *colon = '\0';
    if (at)
        *at = '\0';
    return FL_OK;
}

static judged_form form_of(const asked_text *t)
{
    if (t->number)
        return t->key ? FORM_TOP : FORM_SCORE;
    return t->key ? FORM_KEY : FORM_ALONE;
}

static const char *form_text(judged_form form)
{
    static const char *const texts[] = { [FORM_ALONE] = "",
                                         [FORM_KEY] = ":KEY",
                                         [FORM_SCORE] = "@SCORE",
                                         [FORM_TOP] = "@K:KEY" };

    return texts[form];
}

/* A measure of that name in another form, or else the nearest name. */
static fl_status no_measure(const char *word, const char *name)
{
    const char *names[FL_LEN(all)];
    const char *near;

    for (size_t i = 0; i < FL_LEN(all); i++) {
        names[i] = all[i].name;
        if (!strcmp(all[i].name, name))
            FL_FAIL(FL_ERR_INVAL, "metric %s: write %s%s, where KEY is a slot",
                    word, name, form_text(all[i].form));
    }
    near = fl_nearest_name(name, names, FL_LEN(all));
    FL_FAIL(FL_ERR_NOTFOUND, "there is no metric '%s'%s%s%s", word,
            near ? "; did you mean " : "", near ? near : "",
            near ? "?" : "; fl_judge_help lists them");
}

static fl_status find_kind(const char *word, const asked_text *t,
                           const judged **out)
{
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (!strcmp(all[i].name, t->name) && all[i].form == form_of(t)) {
            *out = &all[i];
            return FL_OK;
        }
    return no_measure(word, t->name);
}

/* A score from 0 to 1, or a whole number of records. */
static fl_status read_number(const char *word, const asked_text *t,
                             judged_form form, double *out)
{
    char *end;

    if (!t->number)
        return FL_OK;
    *out = strtod(t->number, &end);
    if (end == t->number || *end ||
        (form == FORM_SCORE && !(*out >= 0 && *out <= 1)))
        FL_FAIL(FL_ERR_INVAL, "metric %s: '%s' is no score from 0 to 1", word,
                t->number);
    if (form == FORM_TOP &&
        !(*out >= 1 && *out <= TOP_MAX && *out == floor(*out)))
        FL_FAIL(FL_ERR_INVAL, "metric %s: '%s' is no number of records", word,
                t->number);
    return FL_OK;
}

/* --- making ---------------------------------------------------------------- */

static fl_status add_eval(fl_judge *j)
{
    fl_eval *e;

    FL_TRY(j->is_of_numbers ? fl_eval_new_of_numbers(&e) : fl_eval_new(&e));
    fl_vec_push(&j->evals, e);
    return FL_OK;
}

/* The evaluation with these groups; key NULL: with any. */
static fl_status find_eval(fl_judge *j, const char *key, size_t *out)
{
    *out = 0;
    for (size_t i = 0; key && i < j->keys.len; i++)
        if (!strcmp(j->keys.data[i], key)) {
            *out = i;
            return FL_OK;
        }
    if (key) {
        *out = j->keys.len;
        fl_vec_push(&j->keys, fl_strdup(key));
    }
    return *out < j->evals.len ? FL_OK : add_eval(j);
}

static fl_status add_measure(fl_judge *j, const char *word)
{
    measure m = { 0 };
    asked_text t;
    double number = 0;

    FL_TRY(cut(word, &t));
    FL_TRY(find_kind(word, &t, &m.kind));
    FL_TRY(read_number(word, &t, m.kind->form, &number));
    if (t.key && !*t.key)
        FL_FAIL(FL_ERR_INVAL, "metric %s has no key behind its colon", word);
    FL_TRY(find_eval(j, t.key, &m.eval));
    for (size_t i = 0; m.kind->asked && i < j->measures.len; i++)
        m.asked += j->measures.data[i].kind->asked &&
                   j->measures.data[i].eval == m.eval;
    if (m.kind->asked)
        fl_eval_ask(j->evals.data[m.eval],
                    (fl_eval_asked){ m.kind->asked, number });
    m.text = fl_strdup(word);
    fl_vec_push(&j->measures, m);
    return FL_OK;
}

/* Whether all of them make sense where predictions are no chances. */
static fl_status look_at_kinds(fl_judge *j, const fl_words *words)
{
    const judged *kind;
    asked_text t;

    j->is_of_numbers = true;
    for (size_t i = 0; i < words->list.len; i++) {
        FL_TRY(cut(words->list.data[i].value, &t));
        FL_TRY(find_kind(words->list.data[i].value, &t, &kind));
        j->is_of_numbers &= kind->of_numbers;
    }
    return FL_OK;
}

static fl_status add_measures(fl_judge *j, const fl_words *words)
{
    fl_status st = look_at_kinds(j, words);

    for (size_t i = 0; !st && i < words->list.len; i++)
        st = add_measure(j, words->list.data[i].value);
    return st;
}

fl_status fl_judge_new(fl_judge **out, const char *metrics)
{
    fl_judge *j;
    fl_words words;
    fl_status st;

    if (!*metrics)
        FL_FAIL(FL_ERR_INVAL,
                "no metric is named; say auc,logloss for example");
    FL_TRY(fl_err_ctx(fl_words_read(&words, metrics, FL_WORDS_LIST),
                      "metrics '%s'", metrics));
    j = fl_alloc(sizeof(*j));
    st = add_measures(j, &words);
    fl_words_release(&words);
    if (st)
        fl_judge_free(j);
    else
        *out = j;
    return st;
}

void fl_judge_free(fl_judge *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->evals.len; i++)
        fl_eval_free(j->evals.data[i]);
    for (size_t i = 0; i < j->keys.len; i++)
        fl_free(j->keys.data[i]);
    for (size_t i = 0; i < j->measures.len; i++)
        fl_free(j->measures.data[i].text);
    fl_vec_release(&j->evals);
    fl_vec_release(&j->keys);
    fl_vec_release(&j->measures);
    fl_vec_release(&j->classes);
    fl_free(j->figures);
    fl_free(j);
}

const char *fl_judge_key(const fl_judge *j, size_t i)
{
    return i < j->keys.len ? j->keys.data[i] : NULL;
}

/* --- samples --------------------------------------------------------------- */

static fl_status make_classes(fl_judge *j, const float *labels, size_t n)
{
    j->classes.len = 0;
    for (size_t i = 0; i < n; i++) {
        if (labels[i] != 0 && labels[i] != 1)
            FL_FAIL(FL_ERR_INVAL,
                    "label %g is not 0 or 1, as these metrics need it; those "
                    "of other numbers are rmse, mae, calibration and what is "
                    "made of "
                    "the K best",
                    (double)labels[i]);
        fl_vec_push(&j->classes, (int64_t)labels[i]);
    }
    return FL_OK;
}

fl_status fl_judge_add(fl_judge *j, const float *scores, const float *labels,
                       const uint64_t *const *keys, size_t n)
{
    if (!j->is_of_numbers)
        FL_TRY(make_classes(j, labels, n));
    for (size_t i = 0; i < j->evals.len; i++) {
        const uint64_t *groups = j->keys.len ? keys[i] : NULL;

        FL_TRY(j->is_of_numbers ? fl_eval_add_numbers(j->evals.data[i], scores,
                                                      labels, groups, n)
                                : fl_eval_add(j->evals.data[i], scores,
                                              j->classes.data, groups, n));
    }
    return FL_OK;
}

/* --- the end --------------------------------------------------------------- */

fl_status fl_judge_finish(fl_judge *j, fl_fleet *f)
{
    fl_eval_figures *figures = fl_alloc((j->evals.len + 1) * sizeof(*figures));
    fl_status st = FL_OK;

    for (size_t i = 0; !st && i < j->evals.len; i++) {
        figures[i].size = sizeof(*figures);
        st = fl_eval_finish(j->evals.data[i], f, 0);
        if (!st)
            st = fl_eval_total(j->evals.data[i], &figures[i]);
    }
    if (st) {
        fl_free(figures);
        return st;
    }
    fl_free(j->figures);
    j->figures = figures;
    return FL_OK;
}

size_t fl_judge_count(const fl_judge *j)
{
    return j->measures.len;
}

const char *fl_judge_name(const fl_judge *j, size_t i)
{
    return i < j->measures.len ? j->measures.data[i].text : NULL;
}

double fl_judge_value(const fl_judge *j, size_t i)
{
    const measure *m;
    double value;

    if (i >= j->measures.len || !j->figures)
        return NAN;
    m = &j->measures.data[i];
    if (m->kind->asked)
        return fl_eval_measure(j->evals.data[m->eval], m->asked);
    memcpy(&value, (const char *)&j->figures[m->eval] + m->kind->field,
           sizeof(value));
    return value;
}

int fl_judge_better(const fl_judge *j, size_t i)
{
    return i < j->measures.len ? j->measures.data[i].kind->better : 0;
}

char *fl_judge_help(void)
{
    fl_str out = { 0 };

    for (size_t i = 0; i < FL_LEN(all); i++)
        fl_str_addf(&out, "%s%s\t%s%s\n", all[i].name, form_text(all[i].form),
                    all[i].doc, all[i].of_numbers ? " (of numbers, too)" : "");
    return fl_str_take(&out);
}
