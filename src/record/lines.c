/* lines.c - a record as lines of JSON: FOLDER/WHO.jsonl, docs/formats/record.md.
 *
 * Each line is one write at the end of the file, so that a run that is cut off
 * leaves whole lines, and one that goes on adds to them.
 */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/vec.h"
#include "conf/key.h"
#include "record/sink.h"

#define FORMAT 1
#define HOST_MAX 256

static const char *folder(const fl_conf *conf)
{
    return conf->record_dir;
}

static fl_status name(const char *in, const char *who, double now, char **path)
{
    fl_str s = { 0 };

    (void)now;
    fl_str_addf(&s, "%s/%s.jsonl", in, who);
    *path = fl_str_take(&s);
    return FL_OK;
}

/* --- lines ---------------------------------------------------------------- */

static fl_json begin_line(const char *kind, double now)
{
    fl_json j = { 0 };

    fl_json_object(&j, NULL);
    fl_json_text(&j, "type", kind);
    fl_json_f64(&j, "time", now);
    return j;
}

static int end_line(const fl_record_file *f, fl_json *j)
{
    fl_str line = { 0 };
    char *text;
    int err;

    fl_json_end(j);
    text = fl_json_take(j);
    fl_str_addf(&line, "%s\n", text);
    err = fl_file_put(f->fd, line.data, line.len);
    fl_str_release(&line);
    fl_free(text);
    return err;
}

/* --- what is told --------------------------------------------------------- */

/* A secret is told by nobody. */
static bool is_secret(const char *key)
{
    return !strcmp(key, "join_token") || !strcmp(key, "look_token");
}

/* Those that are not as they come. */
static void add_settings(fl_json *j, const fl_conf *conf)
{
    fl_json_object(j, "settings");
    for (size_t i = 0; i < fl_n_keys; i++) {
        const fl_key *k = &fl_keys[i];
        char number[FL_KEY_NUMBER_MAX];
        fl_key_value v = fl_conf_value(conf, k);

        if (fl_conf_from_of(conf, k->name) == FL_FROM_DEFAULT)
            continue;
        fl_json_text(j, k->name,
                     is_secret(k->name) ? "(set)"
                                        : fl_key_print(k, &v, number));
    }
    fl_json_end(j);
}

static int begin(const fl_record_file *f, const fl_record_start *a, double now)
{
    fl_json j = begin_line("begin", now);
    char host[HOST_MAX] = "";

    (void)gethostname(host, sizeof(host) - 1);
    fl_json_u64(&j, "format", FORMAT);
    fl_json_text(&j, "who", a->who);
    fl_json_text(&j, "host", host);
    fl_json_i64(&j, "process", getpid());
    fl_json_text(&j, "versions", a->versions);
    fl_json_bool(&j, "goes_on", *a->conf->resume);
    add_settings(&j, a->conf);
    return end_line(f, &j);
}

static int pass(const fl_record_file *f, const fl_record_numbers *n, double now)
{
    const fl_record_pass *p = n->pass;
    fl_json j = begin_line(p->is_last ? "pass" : "progress", now);

    fl_json_text(&j, "phase", p->phase);
    fl_json_u64(&j, "pass", p->pass);
    fl_json_u64(&j, "step", p->step);
    fl_json_u64(&j, "samples", p->samples);
    fl_json_u64(&j, "batches", p->batches);
    fl_json_f64(&j, "seconds", p->seconds);
    fl_json_f64(&j, "input_seconds", p->input_seconds);
    fl_json_f64(&j, "peer_seconds", p->peer_seconds);
    fl_json_f64(&j, "rate", n->rate);
    fl_json_f64(&j, "loss", p->loss);
    fl_json_f64(&j, "auc", p->auc);
    return end_line(f, &j);
}

static int number(const fl_record_file *f, const char *what, uint64_t step,
                  double value, double now)
{
    fl_json j = begin_line("number", now);

    fl_json_text(&j, "name", what);
    fl_json_u64(&j, "step", step);
    fl_json_f64(&j, "value", value);
    return end_line(f, &j);
}

static int note(const fl_record_file *f, const char *what, const char *text,
                double now)
{
    fl_json j = begin_line("note", now);

    fl_json_text(&j, "name", what);
    fl_json_text(&j, "text", text);
    return end_line(f, &j);
}

static int server(const fl_record_file *f, const char *json, double now)
{
    fl_json j = begin_line("server", now);

    fl_json_raw(&j, "counters", json, strlen(json));
    return end_line(f, &j);
}

static int end(const fl_record_file *f, double now)
{
    fl_json j = begin_line("end", now);

    return end_line(f, &j);
}

const fl_record_sink fl_record_lines = {
    .folder = folder,
    .name = name,
    .begin = begin,
    .pass = pass,
    .number = number,
    .note = note,
    .server = server,
    .end = end,
};
