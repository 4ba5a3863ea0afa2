/* test_serving.c - a model for other processes, over real sockets. */
#include "../rpc/certs.h"
#include "../serve/serve_kit.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/thread.h"
#include "flotilla/serving.h"

#define CALLERS 6
#define QUESTIONS 20
#define ANSWER_MAX (64 << 10)

static const fl_layers_embedding_args in_table = {
    .size = sizeof(fl_layers_embedding_args),
    .is_sparse = true,
    .is_distributed = true,
    .param = { .name = "emb" },
};

/* A model that is served, and the program that it comes from. */
typedef struct served {
    kit_net n;
    fl_model *m;
    fl_ctx *c;
    fl_serving *s;
} served;

/* Settings of a context, the last without a name. */
typedef struct setting {
    const char *key, *value;
} setting;

static fl_ctx *ctx_with(const setting *settings)
{
    fl_ctx *c = make_ctx();

    for (; settings->key; settings++)
        must(fl_ctx_set(c, settings->key, settings->value));
    return c;
}

static void served_with(served *s, const setting *settings,
                        const fl_serving_args *args)
{
    static int number;
    char name[32], dir[256];

    s->n = kit_net_new(&in_table);
    kit_train(&s->n, 1, 10);
    snprintf(name, sizeof(name), "served%d", number++);
    must(kit_save(&s->n, kit_path(name, dir)));
    must(fl_model_open(&s->m, dir));
    s->c = ctx_with(settings);
    must(fl_serving_start_with(&s->s, s->c, s->m, args));
}

static void served_new(served *s, const char *token,
                       const fl_serving_args *args)
{
    const setting settings[] = { { "join_token", token }, { 0 } };

    served_with(s, settings, args);
}

static void served_free(served *s)
{
    fl_serving_stop(s->s);
    fl_model_close(s->m);
    fl_ctx_free(s->c);
    kit_net_free(&s->n);
}

/* --- callers -------------------------------------------------------------- */

static fl_remote_model *call_up(fl_ctx *c, const char *address)
{
    fl_remote_model *r = NULL;

    must(fl_remote_model_open(&r, c, address));
    return r;
}

static void ask_and_compare(served *s, fl_remote_model *r, uint32_t seed)
{
    float expected[KIT_BATCH];
    const fl_feed *out;
    kit_batch b;
    size_t n;

    kit_batch_draw(&b, seed);
    kit_expect(&s->n, &b, expected);
    assert_ok(fl_remote_model_run(r, b.feeds, 3, &out, &n));
    assert_int_equal(n, 1);
    assert_string_equal(out[0].name, fl_var_name(s->n.score));
    assert_int_equal(out[0].value.shape.dim[0], KIT_BATCH);
    assert_memory_equal(out[0].value.data, expected, sizeof(expected));
}

static void serve_at(const char *listen, const char *token)
{
    fl_serving_args a =
        FL_INIT(fl_serving_args, .listen = listen, .n_threads = 2);
    fl_remote_model *r;
    served s;

    served_new(&s, token, &a);
    r = call_up(s.c, fl_serving_address(s.s));
    for (uint32_t i = 0; i < 5; i++)
        ask_and_compare(&s, r, 300 + i);
    fl_remote_model_close(r);
    served_free(&s);
}

static void scores_come_over_tcp_and_over_a_unix_socket(void **state)
{
    char path[256], address[300];

    (void)state;
    serve_at("127.0.0.1:0", "");
    serve_at("127.0.0.1:0", "a secret");
    snprintf(address, sizeof(address), "unix:%s", kit_path("door", path));
    serve_at(address, "");
}

/* Whoever has these settings gets no answer. */
static void is_refused(served *s, const setting *settings)
{
    fl_ctx *stranger = ctx_with(settings);
    fl_remote_model *r;
    const fl_feed *out;
    kit_batch b;
    size_t n;

    must(fl_ctx_set(stranger, "connect_timeout_ms", "300"));
    must(fl_ctx_set(stranger, "pending_timeout_ms", "300"));
    r = call_up(stranger, fl_serving_address(s->s));
    kit_batch_draw(&b, 1);
    assert_true(fl_remote_model_run(r, b.feeds, 3, &out, &n) != FL_OK);
    assert_said(fl_serving_address(s->s));
    fl_remote_model_close(r);
    fl_ctx_free(stranger);
}

static void a_caller_with_another_token_is_told_nothing(void **state)
{
    fl_serving_args a = FL_INIT(fl_serving_args, .listen = "127.0.0.1:0");
    served s;

    (void)state;
    served_new(&s, "a secret", &a);
    is_refused(&s, (const setting[]){ { "join_token", "a guess" }, { 0 } });
    is_refused(&s, (const setting[]){ { 0 } });
    served_free(&s);
}

/* --- TLS ------------------------------------------------------------------ */

/* An authority and somebody with its certificate: NAME-ca.pem, NAME.pem and
   NAME.key. */
static void write_certs(const char *name)
{
    test_cert ca = { 0 }, member = { 0 };
    char file[64], path[256];

    assert_true(
        test_cert_make(&ca, "authority", NULL, -CERT_HOUR, CERT_HOUR, NULL));
    assert_true(
        test_cert_make(&member, name, &ca, -CERT_HOUR, CERT_HOUR, NULL));
    snprintf(file, sizeof(file), "%s-ca.pem", name);
    assert_true(test_cert_write(&ca, kit_path(file, path)));
    snprintf(file, sizeof(file), "%s.pem", name);
    assert_true(test_cert_write(&member, kit_path(file, path)));
    snprintf(file, sizeof(file), "%s.key", name);
    assert_true(test_key_write(&member, kit_path(file, path), NULL));
    test_cert_release(&ca);
    test_cert_release(&member);
}

static void scores_come_over_tls_with_a_token(void **state)
{
    char ca[256], cert[256], key[256], ca2[256], cert2[256], key2[256];
    const setting ours[] = { { "tls_ca", kit_path("ours-ca.pem", ca) },
                             { "tls_cert", kit_path("ours.pem", cert) },
                             { "tls_key", kit_path("ours.key", key) },
                             { "join_token", "a secret" },
                             { 0 } };
    const setting theirs[] = { { "tls_ca", kit_path("theirs-ca.pem", ca2) },
                               { "tls_cert", kit_path("theirs.pem", cert2) },
                               { "tls_key", kit_path("theirs.key", key2) },
                               { "join_token", "a secret" },
                               { 0 } };
    fl_remote_model *r;
    served s;

    (void)state;
    write_certs("ours");
    write_certs("theirs");
    served_with(
        &s, ours,
        FL_OPTIONS(fl_serving_args, .listen = "127.0.0.1:0", .n_threads = 2));
    r = call_up(s.c, fl_serving_address(s.s));
    for (uint32_t i = 0; i < 5; i++)
        ask_and_compare(&s, r, 700 + i);
    fl_remote_model_close(r);
    /* Another authority, no TLS, and another token behind good TLS. */
    is_refused(&s, theirs);
    is_refused(&s, (const setting[]){ { "join_token", "a secret" }, { 0 } });
    is_refused(
        &s,
        (const setting[]){
            ours[0], ours[1], ours[2], { "join_token", "a guess" }, { 0 } });
    served_free(&s);
}

static void beyond_the_loopback_a_token_is_needed(void **state)
{
    fl_serving *s;
    served v;

    (void)state;
    served_new(&v, "", FL_OPTIONS(fl_serving_args, .listen = "127.0.0.1:0"));
    assert_int_equal(fl_serving_start(&s, v.c, v.m, .listen = "0.0.0.0:0"),
                     FL_ERR_INVAL);
    assert_said("beyond the loopback");
    assert_int_equal(fl_serving_start(&s, v.c, v.m, .n_threads = 1),
                     FL_ERR_INVAL);
    assert_said("where to serve the model?");
    served_free(&v);
}

static void what_is_wrong_with_a_question_is_told(void **state)
{
    fl_remote_model *r;
    const fl_feed *out;
    kit_batch b;
    served s;
    size_t n;

    (void)state;
    served_new(&s, "", FL_OPTIONS(fl_serving_args, .listen = "127.0.0.1:0"));
    r = call_up(s.c, fl_serving_address(s.s));
    kit_batch_draw(&b, 1);
    assert_int_equal(fl_remote_model_run(r, b.feeds, 2, &out, &n),
                     FL_ERR_INVAL);
    assert_said("input x is not fed");
    assert_int_equal(fl_remote_model_run(r, b.feeds, 4, &out, &n),
                     FL_ERR_NOTFOUND);
    assert_said("the model has no input y");
    b.feeds[2].value.shape.dim[0] = 1;
    assert_int_equal(fl_remote_model_run(r, b.feeds, 3, &out, &n),
                     FL_ERR_INVAL);
    assert_said("input x has 1 records, but s0 has 12");
    ask_and_compare(&s, r, 7); /* the connection goes on */
    fl_remote_model_close(r);
    served_free(&s);
}

/* --- many callers --------------------------------------------------------- */

typedef struct caller {
    served *s;
    fl_thread *thread;
    uint32_t seed;
    float expected[QUESTIONS][KIT_BATCH];
    atomic_int n_right;
} caller;

/* A product of more rows may be rounded otherwise. */
static bool is_near(const float *got, const float *expected)
{
    for (int i = 0; i < KIT_BATCH; i++)
        if (!(fabsf(got[i] - expected[i]) < 1e-6f))
            return false;
    return true;
}

static void call(void *arg)
{
    caller *c = arg;
    fl_remote_model *r = call_up(c->s->c, fl_serving_address(c->s->s));
    const fl_feed *out;
    kit_batch b;
    size_t n;

    for (uint32_t i = 0; i < QUESTIONS; i++) {
        kit_batch_draw(&b, c->seed + i);
        must(fl_remote_model_run(r, b.feeds, 3, &out, &n));
        c->n_right += is_near(out[0].value.data, c->expected[i]);
    }
    fl_remote_model_close(r);
}

static void many_callers_get_their_own_scores(void **state)
{
    static caller all[CALLERS];
    served s;

    (void)state;
    served_new(
        &s, "",
        FL_OPTIONS(fl_serving_args, .listen = "127.0.0.1:0", .n_threads = 1));
    for (uint32_t k = 0; k < CALLERS; k++) {
        all[k].s = &s;
        all[k].seed = 1000 * k;
        for (uint32_t i = 0; i < QUESTIONS; i++) {
            kit_batch b;

            kit_batch_draw(&b, all[k].seed + i);
            kit_expect(&s.n, &b, all[k].expected[i]);
        }
    }
    for (int k = 0; k < CALLERS; k++)
        assert_ok(fl_thread_start(&all[k].thread, "caller", call, &all[k]));
    for (int k = 0; k < CALLERS; k++) {
        fl_thread_join(all[k].thread);
        assert_int_equal(all[k].n_right, QUESTIONS);
    }
    assert_int_equal(kit_stats(s.m).records, CALLERS * QUESTIONS * KIT_BATCH);
    served_free(&s);
}

/* --- HTTP ----------------------------------------------------------------- */

#ifdef FL_HAS_MICROHTTPD

static int dial(const char *address)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    struct timeval limit = { .tv_sec = 20 };
    const char *port = strrchr(address, ':');
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    to.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* The whole answer to one request. */
static const char *http(const served *s, const char *method, const char *path,
                        const char *head, const char *body)
{
    static char text[ANSWER_MAX];
    int fd = dial(fl_serving_http_address(s->s));
    size_t len = 0;
    ssize_t n;

    n = snprintf(text, sizeof(text),
                 "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
                 "Content-Length: %zu\r\n\r\n%s",
                 method, path, head, strlen(body), body);
    assert_int_equal(write(fd, text, (size_t)n), n);
    while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)n;
    assert_true(n == 0);
    text[len] = '\0';
    close(fd);
    return text;
}

static void print_list(char *to, size_t cap, const kit_batch *b, int slot)
{
    size_t at = (size_t)snprintf(to, cap, "[");

    for (int i = 0; i < KIT_BATCH; i++) {
        at += (size_t)snprintf(to + at, cap - at, "%s[", i ? "," : "");
        for (int64_t k = b->offsets[slot][i]; k < b->offsets[slot][i + 1]; k++)
            at += (size_t)snprintf(to + at, cap - at, "%s%lld",
                                   k > b->offsets[slot][i] ? "," : "",
                                   (long long)b->ids[slot][k]);
        at += (size_t)snprintf(to + at, cap - at, "]");
    }
    snprintf(to + at, cap - at, "]");
}

static void print_dense(char *to, size_t cap, const kit_batch *b)
{
    size_t at = (size_t)snprintf(to, cap, "[");

    for (int i = 0; i < KIT_BATCH; i++) {
        const float *x = b->x + (ptrdiff_t)i * KIT_DENSE;

        at += (size_t)snprintf(to + at, cap - at, "%s[%.9g,%.9g,%.9g]",
                               i ? "," : "", (double)x[0], (double)x[1],
                               (double)x[2]);
    }
    snprintf(to + at, cap - at, "]");
}

static void scores_come_as_json(void **state)
{
    char s0[2048], s1[2048], x[2048], body[8192], *at;
    float expected[KIT_BATCH];
    const char *answer;
    kit_batch b;
    served s;

    (void)state;
    served_new(&s, "", FL_OPTIONS(fl_serving_args, .http = "127.0.0.1:0"));
    assert_null(fl_serving_address(s.s));
    kit_batch_draw(&b, 9);
    kit_expect(&s.n, &b, expected);
    print_list(s0, sizeof(s0), &b, 0);
    print_list(s1, sizeof(s1), &b, 1);
    print_dense(x, sizeof(x), &b);
    snprintf(body, sizeof(body),
             "{\"inputs\": {\"s0\": %s, \"s1\": %s, \"x\": %s}}", s0, s1, x);
    answer = http(&s, "POST", "/predict", "", body);
    assert_text_has(answer, "HTTP/1.1 200");
    at = strstr(answer, "[[");
    assert_non_null(at);
    for (int i = 0; i < KIT_BATCH; i++) {
        at += strspn(at, "[],");
        assert_true((float)strtod(at, &at) == expected[i]);
    }
    assert_text_has(answer, "\"version\":\"");
    served_free(&s);
}

static void http_says_what_is_wrong(void **state)
{
    served s;

    (void)state;
    served_new(&s, "", FL_OPTIONS(fl_serving_args, .http = "127.0.0.1:0"));
    assert_text_has(http(&s, "POST", "/predict", "", "{"),
                    "the body is no JSON");
    assert_text_has(http(&s, "POST", "/predict", "", "{}"), "HTTP/1.1 400");
    assert_text_has(
        http(&s, "POST", "/predict", "", "{\"inputs\": {\"z\": [1]}}"),
        "the model has no input z");
    assert_text_has(
        http(&s, "POST", "/predict", "", "{\"inputs\": {\"s0\": [[1.5]]}}"),
        "input s0: a value is not a whole number");
    assert_text_has(
        http(&s, "POST", "/predict", "", "{\"inputs\": {\"x\": [[1, 2]]}}"),
        "a record has 2 numbers; exactly 3 are wanted");
    assert_text_has(
        http(&s, "POST", "/predict", "", "{\"inputs\": {\"x\": [[1, 2, 3]]}}"),
        "input s0 is not fed");
    assert_text_has(http(&s, "GET", "/predict", "", ""), "HTTP/1.1 405");
    assert_text_has(http(&s, "GET", "/else", "", ""), "HTTP/1.1 404");
    served_free(&s);
}

static void health_and_metrics_are_there(void **state)
{
    const char *answer;
    served s;

    (void)state;
    served_new(&s, "", FL_OPTIONS(fl_serving_args, .http = "127.0.0.1:0"));
    assert_text_has(http(&s, "GET", "/health", "", ""), "\"status\":\"ok\"");
    (void)http(&s, "POST", "/predict", "",
               "{\"inputs\": {\"s0\": [[\"1\", 2]], \"s1\": [[3]], "
               "\"x\": [[0, 0, 0]]}}");
    answer = http(&s, "GET", "/metrics", "", "");
    assert_text_has(answer, "flotilla_requests_total 1");
    assert_text_has(answer, "flotilla_records_total 1");
    assert_text_has(answer, "flotilla_rows_total 3");
    assert_text_has(answer, "flotilla_version{id=\"");
    served_free(&s);
}

static void with_a_token_http_asks_for_it(void **state)
{
    served s;

    (void)state;
    served_new(&s, "secret",
               FL_OPTIONS(fl_serving_args, .http = "127.0.0.1:0"));
    assert_text_has(http(&s, "GET", "/health", "", ""), "HTTP/1.1 401");
    assert_text_has(
        http(&s, "GET", "/health", "Authorization: Bearer guess1\r\n", ""),
        "HTTP/1.1 401");
    assert_text_has(
        http(&s, "GET", "/health", "Authorization: Bearer secret\r\n", ""),
        "HTTP/1.1 200");
    served_free(&s);
}

#else

static void without_its_library_http_says_so(void **state)
{
    fl_serving *s;
    served v;

    (void)state;
    served_new(&v, "", FL_OPTIONS(fl_serving_args, .listen = "127.0.0.1:0"));
    assert_int_equal(fl_serving_start(&s, v.c, v.m, .http = "127.0.0.1:0"),
                     FL_ERR_UNSUPPORTED);
    assert_said("built without libmicrohttpd");
    served_free(&v);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_come_over_tcp_and_over_a_unix_socket),
        cmocka_unit_test(a_caller_with_another_token_is_told_nothing),
        cmocka_unit_test(scores_come_over_tls_with_a_token),
        cmocka_unit_test(beyond_the_loopback_a_token_is_needed),
        cmocka_unit_test(what_is_wrong_with_a_question_is_told),
        cmocka_unit_test(many_callers_get_their_own_scores),
#ifdef FL_HAS_MICROHTTPD
        cmocka_unit_test(scores_come_as_json),
        cmocka_unit_test(http_says_what_is_wrong),
        cmocka_unit_test(health_and_metrics_are_there),
        cmocka_unit_test(with_a_token_http_asks_for_it),
#else
        cmocka_unit_test(without_its_library_http_says_so),
#endif
    };

    return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
