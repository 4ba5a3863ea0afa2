/* ctx.c - contexts: settings, default programs, scope. */
#include "ctx/ctx.h"

#include <string.h>

#include <cjson/cJSON.h>
#include <xxhash.h>

#include "ctx/passes.h"
#include "ctx/plugin.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/timeline.h"
#include "kernel/gemm.h"
#include "kernel/gemm_bf16.h"
#include "kernel/isa.h"
#include "mode/mode.h"
#include "ops/ops.h"
#include "record/record.h"

static fl_program *make_program(fl_ctx *c)
{
    fl_program *p = fl_program_of(&fl_ops);

    p->ctx = c;
    p->seed = (uint64_t)c->conf.seed;
    return p;
}

fl_status fl_program_new(fl_program **out, fl_ctx *c)
{
    *out = make_program(c);
    return FL_OK;
}

/* The level is the process's, since there is one sink. */
static void apply_log_level(const fl_ctx *c)
{
    static const char *const names[] = { "debug", "info", "warn", "error" };

    for (size_t i = 0; i < FL_LEN(names); i++)
        if (!strcmp(names[i], c->conf.log_level))
            fl_log_set_level((fl_log_level)i);
}

/* The timeline is the process's; the first context that wants one starts it. */
static void apply_trace(const fl_ctx *c)
{
    if (*c->conf.trace)
        fl_timeline_start(c->conf.trace);
}

fl_status fl_ctx_new(fl_ctx **out)
{
    fl_ctx *c = fl_alloc(sizeof(*c));
    fl_status st = fl_conf_init(&c->conf);

    if (st) {
        fl_free(c);
        return st;
    }
    fl_scope_init(&c->scope);
    c->main = make_program(c);
    c->startup = make_program(c);
    c->main->is_default = c->startup->is_default = true;
    c->passes = fl_passes_new();
    c->saved_ns = c->delta_ns = fl_now_ns();
    c->mode = &fl_mode_local;
    c->comm = c->mode->open(NULL);
    /* The default leaves the word to fl_log_set. */
    if (strcmp(c->conf.log_level, "info"))
        apply_log_level(c);
    apply_trace(c);
    st = fl_plugins_open(c);
    if (st)
        fl_ctx_free(c);
    else
        *out = c;
    return st;
}

void fl_ctx_free(fl_ctx *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->optimizers.len; i++)
        fl_optimizer_free(c->optimizers.data[i]);
    fl_vec_release(&c->optimizers);
    for (size_t i = 0; i < c->modes.len; i++)
        fl_free(c->modes.data[i]);
    fl_vec_release(&c->modes);
    fl_passes_free(c->passes);
    fl_record_close(c->record);
    for (size_t i = 0; i < c->names.len; i++)
        fl_names_release(&c->names.data[i]);
    fl_vec_release(&c->names);
    fl_vec_release(&c->pairs);
    fl_vec_release(&c->known_pairs);
    fl_vec_release(&c->scopes);
    c->main->is_default = c->startup->is_default = false;
    fl_program_free(c->main);
    fl_program_free(c->startup);
    fl_scope_release(&c->scope);
    fl_comm_free(c->comm);
    fl_conf_release(&c->conf);
    fl_free(c->saved_as);
    fl_free(c->served_as);
    fl_free(c);
}

fl_status fl_ctx_set(fl_ctx *c, const char *name, const char *value)
{
    FL_TRY(fl_conf_set(&c->conf, name, value));
    if (!strcmp(name, "seed"))
        c->main->seed = c->startup->seed = (uint64_t)c->conf.seed;
    if (!strcmp(name, "log_level"))
        apply_log_level(c);
    if (!strcmp(name, "trace"))
        apply_trace(c);
    return strcmp(name, "plugins") ? FL_OK : fl_plugins_open(c);
}

const char *fl_ctx_get(fl_ctx *c, const char *name)
{
    return fl_conf_get(&c->conf, name);
}

fl_status fl_ctx_exec_options(fl_ctx *c, fl_scope *scope, fl_trace *trace,
                              fl_exec_options *out)
{
    if (!scope)
        scope = fl_current_scope(c);
    if (c->job && scope != c->job_scope && scope->parent != c->job_scope)
        FL_FAIL(FL_ERR_INVAL,
                "a job with servers keeps its values in the scope that was "
                "current when its programs were made; run it there, or in a "
                "scope that has it as parent");
    *out = (fl_exec_options){
        .check_nan_inf = c->conf.check_nan_inf,
        .slice_min_elements = c->conf.slice_min_elements,
        .weighing = fl_weighing_of(&c->conf),
        .pending_timeout_ms = c->conf.pending_timeout_ms,
        .scope = scope,
        .comm = c->comm,
        .trace = c->conf.profile ? trace : NULL,
    };
    return FL_OK;
}

fl_dump_place fl_ctx_dump_place(fl_ctx *c, const char *name)
{
    return (fl_dump_place){
        .dir = *c->conf.dump_ir ? c->conf.dump_ir : NULL,
        .who = c->who,
        .name = name,
        .n_made = &c->n_dumps,
    };
}

static const char *name_of(const fl_ctx *c, const fl_program *p)
{
    if (p == c->main || p == c->fleet_main)
        return "main";
    if (p == c->startup || p == c->fleet_startup)
        return "startup";
    return p->is_for_test ? "test" : "program";
}

fl_pass_options fl_ctx_pass_options(fl_ctx *c, const fl_program *p)
{
    return (fl_pass_options){
        .optimize = c->conf.optimize,
        .skip = c->conf.passes,
        .precision = fl_precision_of(&c->conf),
        .dump = fl_ctx_dump_place(c, name_of(c, p)),
    };
}

void fl_ctx_set_who(fl_ctx *c, fl_role_kind role, int rank)
{
    snprintf(c->who, sizeof(c->who), "%s-%d",
             role == FL_ROLE_SERVER ? "server" : "worker", rank);
}

fl_status fl_ctx_record(fl_ctx *c, fl_record **out)
{
    char *versions;
    fl_status st = FL_OK;

    if (!c->record) {
        versions = fl_version_text();
        st = fl_record_open(
            &c->record, &(fl_record_start){ .conf = &c->conf,
                                            .who = *c->who ? c->who : "process",
                                            .versions = versions });
        fl_text_free(versions);
    }
    *out = c->record;
    return st;
}

/* For the launcher, which cannot know from an exit status that another try
   would end the same way. */
static void leave_note(const fl_ctx *c)
{
    fl_err error;

    fl_err_save(&error, FL_ERR_NUMERIC);
    if (fl_file_write(c->conf.end_note, error.text, strlen(error.text)))
        FL_WARN("ctx", "%s", fl_last_error());
    (void)fl_err_restore(&error);
}

fl_status fl_ctx_ran(fl_ctx *c, fl_status st)
{
    c->run_failed = st != FL_OK;
    if (st == FL_ERR_NUMERIC && c->conf.end_note[0])
        leave_note(c);
    return st;
}

char *fl_settings_help(fl_help_form form)
{
    return fl_conf_help(form);
}

int fl_version(void)
{
    return FL_VERSION_NUMBER;
}

#ifndef FL_HAS_HIREDIS
#define FL_HAS_HIREDIS "none"
#endif
#ifndef FL_HAS_MICROHTTPD
#define FL_HAS_MICROHTTPD "none"
#endif

static void add_libraries(fl_str *s)
{
    unsigned v = XXH_versionNumber();

    /* cJSON_Version() would write into one buffer from any thread. */
    fl_str_addf(s, "cjson %d.%d.%d\n", CJSON_VERSION_MAJOR, CJSON_VERSION_MINOR,
                CJSON_VERSION_PATCH);
    fl_str_addf(s, "xxhash %u.%u.%u\n", v / 10000, v / 100 % 100, v % 100);
    fl_str_add(s, "hiredis " FL_HAS_HIREDIS "\n"
                  "libmicrohttpd " FL_HAS_MICROHTTPD "\n");
}

char *fl_version_text(void)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "flotilla %d.%d.%d\n", FL_VERSION_MAJOR, FL_VERSION_MINOR,
                FL_VERSION_PATCH);
    fl_str_addf(&s, "instructions %s\n", fl_isa_name(fl_isa()));
    fl_str_addf(&s, "gemm %s\n", fl_gemm_backend());
    fl_str_addf(
        &s, "bf16 %s\n",
        fl_isa_bf16_name(fl_bf16_is_fast() ? fl_isa_bf16() : FL_ISA_BF16_NONE));
    add_libraries(&s);
    return fl_str_take(&s);
}

void fl_text_free(char *text)
{
    fl_free(text);
}
