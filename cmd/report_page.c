/* report_page.c - the page: head, tables, bars. Everything is in the one file. */
#include "report.h"

#include <math.h>
#include <string.h>

#include "report_chart.h"

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;"
    "padding:0 1em;color:#1c2733;background:#fff}"
    "h1{font-size:1.5em;margin:0}h2{font-size:1.15em;margin:2em 0 .5em}"
    ".when{color:#667788}"
    ".cards{display:flex;flex-wrap:wrap;gap:.8em;margin:1.2em 0}"
    ".card{border:1px solid #d8dfe6;border-radius:8px;padding:.5em 1em}"
    ".card b{display:block;font-size:1.3em}.card span{color:#667788}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,"
    "1fr));gap:1em}"
    "figure{margin:0;position:relative}.chart{width:100%;height:auto}"
    ".chart text{font-size:11px;fill:#667788}"
    ".chart .title{font-size:14px;font-weight:600;fill:#1c2733}"
    ".chart path{fill:none}.grid{stroke:#eef1f4}.axis{stroke:#9aa7b3}"
    ".line{stroke-width:2}.thin{stroke-width:1;opacity:.6}.faint{opacity:.25}"
    ".cursor{stroke:#9aa7b3;stroke-dasharray:3 3;visibility:hidden}"
    ".shown{position:absolute;display:none;background:#fff;border:1px solid "
    "#9aa7b3;border-radius:4px;padding:.2em .6em;font-size:12px;"
    "pointer-events:none;white-space:pre}"
    ".legend{margin:0 0 0 58px;font-size:12px}.legend span{margin-right:1em}"
    ".legend i{display:inline-block;width:10px;height:10px;margin-right:4px}"
    "table{border-collapse:collapse;font-size:14px}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #e6ebf0;text-align:right}"
    "td:first-child,th:first-child{text-align:left;white-space:nowrap}"
    "h3{margin:1em 0 .3em}table+table{margin-top:.8em}td.text{text-align:left;"
    "overflow-wrap:anywhere}"
    "tr.slow td{background:#fff0e6}tr.other td{background:#fff7d6}"
    ".bar{display:flex;width:420px;height:14px;background:#f2f4f6}"
    "pre{font-size:13px;background:#f6f8fa;padding:.6em}";

/* Shows the points nearest to the pointer; the page is whole without it. */
static const char script[] =
    "document.querySelectorAll('figure').forEach(function(f){"
    "var svg=f.querySelector('svg'),cur=f.querySelector('.cursor'),"
    "box=f.querySelector('.shown');if(!svg)return;"
    "var all=[].map.call(f.querySelectorAll('.series'),function(g){return{"
    "name:g.dataset.name,p:g.dataset.points?g.dataset.points.split(';')"
    ".map(function(s){return s.split(',').map(Number)}):[]}});"
    "svg.addEventListener('mousemove',function(e){"
    "var r=svg.getBoundingClientRect(),x=(e.clientX-r.left)/r.width*"
    "svg.viewBox.baseVal.width,best=null,text='';"
    "all.forEach(function(s){var m=null;s.p.forEach(function(p){"
    "if(!m||Math.abs(p[0]-x)<Math.abs(m[0]-x))m=p});"
    "if(!m)return;if(!best||Math.abs(m[0]-x)<Math.abs(best[0]-x))best=m;"
    "text+=(text?'\\n':'')+s.name+': '+m[3]+'  at '+m[2]});"
    "if(!best)return;cur.setAttribute('transform','translate('+best[0]+',0)');"
    "cur.style.visibility='visible';box.textContent=text;"
    "box.style.display='block';box.style.left=Math.min(e.clientX-r.left+14,"
    "r.width-box.offsetWidth)+'px';box.style.top='34px'});"
    "svg.addEventListener('mouseleave',function(){"
    "cur.style.visibility='hidden';box.style.display='none'})});"
    "document.body.dataset.ready='1';";

/* --- head and tail --------------------------------------------------------- */

static void add_title(FILE *out, const run *runs, size_t n)
{
    html_text(out, runs[0].name);
    if (n > 1) {
        fputs(" and ", out);
        html_text(out, runs[1].name);
    }
}

void report_head(FILE *out, const run *runs, size_t n)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
          out);
    add_title(out, runs, n);
    fprintf(out, "</title>\n<style>%s</style></head><body>\n<h1>", style);
    add_title(out, runs, n);
    fputs("</h1>\n", out);
}

void report_tail(FILE *out)
{
    fprintf(out, "<script>%s</script>\n</body></html>\n", script);
}

/* --- numbers -------------------------------------------------------------- */

static void add_seconds(FILE *out, double s)
{
    if (s >= 3600)
        fprintf(out, "%d:%02d:%02d", (int)s / 3600, (int)s / 60 % 60,
                (int)s % 60);
    else if (s >= 100)
        fprintf(out, "%d:%02d", (int)s / 60, (int)s % 60);
    else
        fprintf(out, "%.3g s", s);
}

/* How a number is written. */
typedef enum look { LOOK_COUNT, LOOK_SMALL, LOOK_SECONDS } look;

static void add_value(FILE *out, double v, look l)
{
    if (isnan(v))
        fputs("&ndash;", out);
    else if (l == LOOK_COUNT)
        fprintf(out, "%.0f", v);
    else if (l == LOOK_SMALL)
        fprintf(out, "%.4f", v);
    else
        add_seconds(out, v);
}

static void add_cell(FILE *out, double v, look l)
{
    fputs("<td>", out);
    add_value(out, v, l);
    fputs("</td>", out);
}

/* The last pass of a phase over all workers: mean of a number by samples. */
static double last_of(const run *r, const char *phase, const char *key)
{
    double sum = 0, samples = 0;

    for (size_t i = 0; i < r->n; i++) {
        const cJSON *line = process_last(&r->all[i], "pass", phase);
        double v = line ? line_number(line, key) : NAN;
        double n = line ? line_number(line, "samples") : 0;

        if (isnan(v) || n <= 0)
            continue;
        sum += v * n;
        samples += n;
    }
    return samples > 0 ? sum / samples : NAN;
}

/* What a program has told last of a number, whoever did. */
static double number_of(const run *r, const char *name)
{
    double v = NAN;

    for (size_t i = 0; i < r->n; i++) {
        const cJSON *line;

        cJSON_ArrayForEach(
            line, r->all[i].lines) if (line_is(line, "number") &&
                                       !strcmp(line_text(line, "name"), name))
            v = line_number(line, "value");
    }
    return v;
}

static double or_else(double v, double otherwise)
{
    return isnan(v) ? otherwise : v;
}

static double samples_of(const run *r)
{
    double n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += process_spent(&r->all[i]).samples;
    return n;
}

static double worker_rate(const process *p)
{
    spent s = process_spent(p);
    double t = s.seconds[SPENT_TRAIN] + s.seconds[SPENT_INPUT] +
               s.seconds[SPENT_PEERS];

    return t > 0 ? s.samples / t : NAN;
}

/* Samples that all workers train in a second in which they train. */
static double rate_of(const run *r)
{
    double rate = 0;

    for (size_t i = 0; i < r->n; i++) {
        double one = worker_rate(&r->all[i]);

        rate += isnan(one) ? 0 : one;
    }
    return rate;
}

/* --- summary -------------------------------------------------------------- */

enum {
    SUM_LOSS,
    SUM_AUC,
    SUM_TEST_LOSS,
    SUM_TEST_AUC,
    SUM_RATE,
    SUM_SAMPLES,
    SUM_SECONDS,
    N_SUMS
};
static const struct {
    const char *name;
    look look;
} sums[N_SUMS] = {
    [SUM_LOSS] = { "loss", LOOK_SMALL },
    [SUM_AUC] = { "AUC", LOOK_SMALL },
    [SUM_TEST_LOSS] = { "loss on what is held out", LOOK_SMALL },
    [SUM_TEST_AUC] = { "AUC on what is held out", LOOK_SMALL },
    [SUM_RATE] = { "samples per second", LOOK_COUNT },
    [SUM_SAMPLES] = { "samples trained", LOOK_COUNT },
    [SUM_SECONDS] = { "in all", LOOK_SECONDS },
};

static void sum_up(const run *r, double out[N_SUMS])
{
    out[SUM_LOSS] =
        or_else(number_of(r, "epoch/train/loss"), last_of(r, "train", "loss"));
    out[SUM_AUC] =
        or_else(number_of(r, "epoch/train/AUC"), last_of(r, "train", "auc"));
    out[SUM_TEST_LOSS] =
        or_else(number_of(r, "epoch/test/loss"), last_of(r, "test", "loss"));
    out[SUM_TEST_AUC] =
        or_else(number_of(r, "epoch/test/AUC"), last_of(r, "test", "auc"));
    out[SUM_RATE] = rate_of(r);
    out[SUM_SAMPLES] = samples_of(r);
    out[SUM_SECONDS] = r->ended - r->began;
}

static void add_cards(FILE *out, const run *r)
{
    double v[N_SUMS];

    sum_up(r, v);
    fputs("<div class=\"cards\">", out);
    for (int i = 0; i < N_SUMS; i++) {
        if (isnan(v[i]))
            continue;
        fputs("<div class=\"card\"><b>", out);
        add_value(out, v[i], sums[i].look);
        fprintf(out, "</b><span>%s</span></div>", sums[i].name);
    }
    fputs("</div>\n", out);
}

static void add_sums_table(FILE *out, const run *runs)
{
    double a[N_SUMS], b[N_SUMS];

    sum_up(&runs[0], a);
    sum_up(&runs[1], b);
    fputs("<table id=\"sums\"><tr><th></th><th>", out);
    html_text(out, runs[0].name);
    fputs("</th><th>", out);
    html_text(out, runs[1].name);
    fputs("</th><th>of the first</th></tr>\n", out);
    for (int i = 0; i < N_SUMS; i++) {
        fprintf(out, "<tr><td>%s</td>", sums[i].name);
        add_cell(out, a[i], sums[i].look);
        add_cell(out, b[i], sums[i].look);
        add_cell(out, 100 * b[i] / a[i], LOOK_COUNT);
        fputs("</tr>\n", out);
    }
    fputs("</table><p class=\"when\">The last column is in per cent.</p>\n",
          out);
}

static bool is_over(const run *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (!line_is(r->all[i].lines->child->prev, "end"))
            return false;
    return true;
}

void report_summary(FILE *out, const run *runs, size_t n)
{
    size_t servers = 0;

    if (n > 1) {
        add_sums_table(out, runs);
        return;
    }
    for (size_t i = 0; i < runs->n; i++)
        servers += runs->all[i].is_server;
    fprintf(out, "<p class=\"when\">%zu worker%s, %zu server%s; ",
            runs->n - servers, runs->n - servers == 1 ? "" : "s", servers,
            servers == 1 ? "" : "s");
    fputs(is_over(runs) ? "it came to its end after "
                        : "it runs, or was cut off, after ",
          out);
    add_seconds(out, runs->ended - runs->began);
    fputs("</p>\n", out);
    add_cards(out, runs);
}

/* --- time ----------------------------------------------------------------- */

static void add_bar(FILE *out, const spent *s, double longest)
{
    fputs("<td><div class=\"bar\">", out);
    for (int i = 0; i < N_SPENT; i++)
        fprintf(out,
                "<div style=\"width:%.2f%%;background:%s\" title=\"%s\"></div>",
                longest > 0 ? 100 * s->seconds[i] / longest : 0,
                i == SPENT_OTHER ? "#c8d0d8" : chart_colour(i), spent_names[i]);
    fputs("</div></td>", out);
}

void report_time(FILE *out, const run *r)
{
    double longest = 0;

    for (size_t i = 0; i < r->n; i++)
        longest = fmax(longest, process_spent(&r->all[i]).total);
    fputs("<h2>Where the time went</h2>\n<table class=\"time\"><tr><th></th>"
          "<th></th>",
          out);
    for (int i = 0; i < N_SPENT; i++)
        fprintf(out, "<th><i style=\"color:%s\">&#9632;</i> %s</th>",
                i == SPENT_OTHER ? "#c8d0d8" : chart_colour(i), spent_names[i]);
    fputs("</tr>\n", out);
    for (size_t i = 0; i < r->n; i++) {
        spent s = process_spent(&r->all[i]);

        if (r->all[i].is_server)
            continue;
        fputs("<tr><td>", out);
        html_text(out, r->all[i].who);
        fputs("</td>", out);
        add_bar(out, &s, longest);
        for (int k = 0; k < N_SPENT; k++) {
            fputs("<td>", out);
            add_seconds(out, s.seconds[k]);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

/* --- workers -------------------------------------------------------------- */

/* Below this share of the mean nobody is called slow. */
#define SLOW_SHARE 0.01

/* Without the time in which it waits for others: in a mode where all go in step
   they have one rate, and the one that waits least is the slowest. */
static double worker_pace(const process *p)
{
    spent s = process_spent(p);
    double t = s.seconds[SPENT_TRAIN] + s.seconds[SPENT_INPUT];

    return t > 0 ? s.samples / t : NAN;
}

/* NULL: there is one alone, or all are about as fast. */
static const process *slowest_of(const run *r, double *mean)
{
    const process *slowest = NULL;
    double sum = 0, least = INFINITY;
    int n = 0;

    for (size_t i = 0; i < r->n; i++) {
        double pace = worker_pace(&r->all[i]);

        if (isnan(pace))
            continue;
        sum += pace;
        n++;
        if (pace < least) {
            least = pace;
            slowest = &r->all[i];
        }
    }
    *mean = n ? sum / n : NAN;
    return n > 1 && least < (1 - SLOW_SHARE) * *mean ? slowest : NULL;
}

static void add_worker(FILE *out, const process *p, bool is_slowest)
{
    spent s = process_spent(p);

    fprintf(out, "<tr%s><td>", is_slowest ? " class=\"slow\"" : "");
    html_text(out, p->who);
    fputs("</td><td>", out);
    html_text(out, line_text(process_begin(p), "host"));
    fputs("</td>", out);
    add_cell(out, s.samples, LOOK_COUNT);
    add_cell(out, worker_rate(p), LOOK_COUNT);
    add_cell(out, worker_pace(p), LOOK_COUNT);
    fputs("</tr>\n", out);
}

static void add_slowest(FILE *out, const process *slowest, double mean)
{
    fputs("<p class=\"slowest\">", out);
    if (slowest) {
        fputs("The slowest is ", out);
        html_text(out, slowest->who);
        fprintf(out,
                ", %.0f %% below the mean of %.0f samples per second, waits "
                "for others left out.",
                100 * (1 - worker_pace(slowest) / mean), mean);
    } else {
        fputs("No worker is slower than the others.", out);
    }
    fputs("</p>\n", out);
}

void report_workers(FILE *out, const run *r)
{
    double mean;
    const process *slowest = slowest_of(r, &mean);

    fputs("<h2>Workers</h2>\n", out);
    add_slowest(out, slowest, mean);
    fputs("<table><tr><th></th><th>host</th><th>samples</th>"
          "<th>samples per second</th><th>without waits for others</th></tr>\n",
          out);
    for (size_t i = 0; i < r->n; i++)
        if (!r->all[i].is_server)
            add_worker(out, &r->all[i], &r->all[i] == slowest);
    fputs("</table>\n", out);
}

/* --- servers -------------------------------------------------------------- */

static void add_field(FILE *out, const cJSON *v)
{
    fputs("<td>", out);
    if (cJSON_IsString(v))
        html_text(out, v->valuestring);
    else if (cJSON_IsNumber(v))
        fprintf(out, "%.10g", v->valuedouble);
    fputs("</td>", out);
}

/* An array of objects that have the same fields: its tables, blocks, trainers. */
static void add_array(FILE *out, const cJSON *array)
{
    const cJSON *object, *v;

    if (!cJSON_IsArray(array) || !cJSON_IsObject(array->child))
        return;
    fputs("<table><tr>", out);
    cJSON_ArrayForEach(v, array->child)
    {
        fputs("<th>", out);
        html_text(out, v == array->child->child ? array->string : v->string);
        fputs("</th>", out);
    }
    fputs("</tr>\n", out);
    cJSON_ArrayForEach(object, array)
    {
        fputs("<tr>", out);
        cJSON_ArrayForEach(v, object) add_field(out, v);
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

static void add_server(FILE *out, const process *p)
{
    const cJSON *line = process_last(p, "server", NULL), *v;

    fputs("<h3>", out);
    html_text(out, p->who);
    fputs("</h3>\n", out);
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(line, "counters"))
        add_array(out, v);
}

void report_servers(FILE *out, const run *r)
{
    bool any = false;

    for (size_t i = 0; i < r->n; i++) {
        if (!r->all[i].is_server)
            continue;
        if (!any)
            fputs("<h2>Servers</h2>\n", out);
        any = true;
        add_server(out, &r->all[i]);
    }
}

/* --- passes --------------------------------------------------------------- */

static void add_pass(FILE *out, const process *p, const cJSON *line)
{
    static const struct {
        const char *key;
        look look;
    } cells[] = { { "pass", LOOK_COUNT }, { "samples", LOOK_COUNT },
                  { "loss", LOOK_SMALL }, { "auc", LOOK_SMALL },
                  { "rate", LOOK_COUNT }, { "seconds", LOOK_SECONDS },
                  { "step", LOOK_COUNT } };

    fputs("<tr><td>", out);
    html_text(out, p->who);
    fprintf(out, "</td><td>%s</td>",
            !strcmp(line_text(line, "phase"), "test") ? "test" : "train");
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++)
        add_cell(out, line_number(line, cells[i].key), cells[i].look);
    fputs("</tr>\n", out);
}

void report_passes(FILE *out, const run *r)
{
    fputs("<h2>Passes over data</h2>\n<table class=\"passes\"><tr><th></th>"
          "<th></th><th>pass</th><th>samples</th><th>loss</th><th>AUC</th>"
          "<th>samples per second</th><th>time</th><th>step</th></tr>\n",
          out);
    for (size_t i = 0; i < r->n; i++) {
        const cJSON *line;

        cJSON_ArrayForEach(line, r->all[i].lines) if (line_is(line, "pass"))
            add_pass(out, &r->all[i], line);
    }
    fputs("</table>\n", out);
}

/* --- settings ------------------------------------------------------------- */

/* What a run has under a name: a setting, or else a note. */
static const char *fact_of(const run *r, const char *name)
{
    const cJSON *line, *settings;
    const char *text = "";

    if (!r->n)
        return text;
    settings =
        cJSON_GetObjectItemCaseSensitive(process_begin(r->all), "settings");
    text = line_text(settings, name);
    cJSON_ArrayForEach(
        line, r->all[0].lines) if (line_is(line, "note") &&
                                   !strcmp(line_text(line, "name"), name))
        text = line_text(line, "text");
    return text;
}

static void add_fact(FILE *out, const run *runs, size_t n, const char *name)
{
    bool differs =
        n > 1 && strcmp(fact_of(&runs[0], name), fact_of(&runs[1], name)) != 0;

    fprintf(out, "<tr%s><td>", differs ? " class=\"other\"" : "");
    html_text(out, name);
    fputs("</td>", out);
    for (size_t i = 0; i < n; i++) {
        fputs("<td class=\"text\">", out);
        html_text(out, fact_of(&runs[i], name));
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

/* Was it listed before, by this run at an earlier line, or by the one before? */
static bool is_listed(const run *runs, size_t at, const cJSON *until,
                      const char *name)
{
    const cJSON *line;

    if (at && *fact_of(&runs[0], name))
        return true;
    cJSON_ArrayForEach(line, runs[at].all[0].lines)
    {
        if (line == until)
            return false;
        if (line_is(line, "note") && !strcmp(line_text(line, "name"), name))
            return true;
    }
    return false;
}

static void add_facts_of(FILE *out, const run *runs, size_t n, size_t at)
{
    const cJSON *settings = cJSON_GetObjectItemCaseSensitive(
        process_begin(&runs[at].all[0]), "settings");
    const cJSON *line, *v;

    cJSON_ArrayForEach(
        line, runs[at].all[0].lines) if (line_is(line, "note") &&
                                         !is_listed(runs, at, line,
                                                    line_text(line, "name")))
        add_fact(out, runs, n, line_text(line, "name"));
    cJSON_ArrayForEach(v, settings) if (!is_listed(runs, at, NULL, v->string))
        add_fact(out, runs, n, v->string);
}

void report_settings(FILE *out, const run *runs, size_t n)
{
    fputs("<h2>Settings</h2>\n<table id=\"settings\"><tr><th></th>", out);
    for (size_t i = 0; i < n; i++) {
        fputs("<th>", out);
        html_text(out, n > 1 ? runs[i].name : "");
        fputs("</th>", out);
    }
    fputs("</tr>\n", out);
    for (size_t i = 0; i < n; i++)
        add_facts_of(out, runs, n, i);
    fputs("</table>\n<h2>Versions</h2>\n", out);
    for (size_t i = 0; i < n; i++) {
        fputs("<pre>", out);
        html_text(out, line_text(process_begin(runs[i].all), "versions"));
        fputs("</pre>\n", out);
    }
}
