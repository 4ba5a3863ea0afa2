/* prom.c - numbers for Prometheus. */
#include "base/prom.h"

#include "flotilla/version.h"

#define PREFIX "flotilla_"

void fl_prom_begin(fl_str *out, const fl_prom_def *d)
{
    fl_str_addf(out,
                "# HELP " PREFIX "%s %s\n"
                "# TYPE " PREFIX "%s %s\n",
                d->name, d->help, d->name,
                d->type == FL_PROM_COUNTER ? "counter" : "gauge");
}

/* A label may have anything in it but these three as they are. */
static void add_label(fl_str *out, const char *label, const char *text)
{
    fl_str_addf(out, "%s=\"", label);
    for (; *text; text++)
        if (*text == '\n')
            fl_str_add(out, "\\n");
        else
            fl_str_addf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "",
                        *text);
    fl_str_add(out, "\"");
}

void fl_prom_add(fl_str *out, const fl_prom_def *d, const char *label,
                 const char *text, double value)
{
    fl_str_addf(out, PREFIX "%s", d->name);
    if (label) {
        fl_str_add(out, "{");
        add_label(out, label, text);
        fl_str_add(out, "}");
    }
    fl_str_addf(out, " %.17g\n", value);
}

void fl_prom_one(fl_str *out, const fl_prom_def *d, double value)
{
    fl_prom_begin(out, d);
    fl_prom_add(out, d, NULL, NULL, value);
}

void fl_prom_process(fl_str *out, const char *job, const char *role, int rank)
{
    static const fl_prom_def info = { "process_info", FL_PROM_GAUGE,
                                      "What this process is; always 1." };

    fl_prom_begin(out, &info);
    fl_str_addf(out, PREFIX "%s{", info.name);
    add_label(out, "job_name", job);
    fl_str_add(out, ",");
    add_label(out, "role", role);
    fl_str_addf(out, ",rank=\"%d\",version=\"%d.%d.%d\"} 1\n", rank,
                FL_VERSION_MAJOR, FL_VERSION_MINOR, FL_VERSION_PATCH);
}
