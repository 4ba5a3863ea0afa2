/* test_shake.c - who may come in, and what both sides see when somebody may
 * not. */
#include "host_kit.h"

#include "base/log.h"
#include "rpc/stream/socket.h"

static const fl_sim_faults near_by = { .seed = 1, .delay_hi_ms = 2 };

/* What was logged; read when no other thread is left. */
static char said[4096];

static void hear_log(void *arg, fl_log_level level, const char *area,
                     const char *text)
{
    size_t len = strlen(said);

    (void)arg;
    (void)level;
    snprintf(said + len, sizeof(said) - len, "%s: %s\n", area, text);
}

static int listen_to_log(void **state)
{
    (void)state;
    said[0] = '\0';
    fl_log_set(hear_log, NULL, FL_LOG_WARN);
    return 0;
}

static int leave_log(void **state)
{
    (void)state;
    fl_log_set(NULL, NULL, FL_LOG_WARN);
    return 0;
}

static int count_of(const char *text, const char *part)
{
    int n = 0;

    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* --- who may come in ------------------------------------------------------ */

/* One that is refused: what it sees, and what the server logs. */
static void expect_refused(const fl_rpc_client_options *o, fl_status st,
                           const char *client_sees, const char *server_logs)
{
    stage s;
    client c;

    said[0] = '\0';
    stage_init(&s, &near_by);
    stage_client(&s, &c, o);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 20000);
    assert_string_equal(c.states, "F");
    assert_int_equal(c.st, st);
    assert_text(c.text, client_sees);
    assert_text(said, server_logs);
    assert_text(said, "rpc: refused peer=dialler1:1 why=");
    assert_string_equal(s.b.log, "");
    client_close(&c);
    stage_release(&s);
}

static void a_wrong_token_gets_no_word(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);

    (void)state;
    o.token = "another";
    expect_refused(&o, FL_ERR_TIMEOUT, "is it the same there?",
                   "does not know the token");
    o.token = "";
    expect_refused(&o, FL_ERR_TIMEOUT, "is it the same there?",
                   "does not know the token");
}

/* The link dials again and again; each time it has another port. */
static void an_address_is_logged_once(void **state)
{
    fl_socket_options so = { .local = FL_LOCAL_OFF };
    fl_rpc_server_options ho = kit_host_options();
    fl_rpc_client_options o = kit_link_options(0);
    char address[FL_ADDRESS_MAX];
    fl_loop *loop;
    fl_rpc_server *host;
    fl_net *net;
    client c;
    book b;

    (void)state;
    o.token = "another";
    o.connect_timeout_ms = 2000;
    book_init(&b);
    assert_ok(fl_net_sockets(&net, &so));
    assert_ok(fl_loop_new(&loop, "both"));
    ho.listen = "127.0.0.1:0";
    ho.loops = &loop;
    ho.n_loops = 1;
    ho.events = &book_events;
    ho.arg = &b;
    assert_ok(fl_rpc_server_new(&host, net, &ho, address));
    client_open(&c, loop, net, address, &o);
    client_ask(&c, TYPE_READ, 0);
    gate_wait(&c.answers, 1);
    in_loop(loop, client_free_link, &c);
    fl_rpc_server_free(host);
    fl_loop_free(loop);
    fl_net_free_sockets(net);
    assert_int_equal(count_of(said, "rpc: refused peer=127.0.0.1:"), 1);
    client_release(&c);
    book_release(&b);
}

static void a_wrong_job_is_told_and_the_right_one_is_not(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);

    (void)state;
    snprintf(o.me.job, sizeof(o.me.job), "other");
    expect_refused(&o, FL_ERR_INVAL, "job 'other' is not the job here",
                   "job 'other'");
}

static void a_wrong_rank_is_named(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);

    (void)state;
    o.peer_rank = 5;
    expect_refused(&o, FL_ERR_INVAL,
                   "server 5 was looked for, and this is "
                   "server 0",
                   "server 5 was looked for");
}

static void the_owner_may_refuse(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    s.b.admitted = FL_ERR_NOMEM;
    stage_client(&s, &c, &o);
    client_ask(&c, TYPE_READ, 0);
    stage_run(&s, 1000);
    assert_int_equal(c.st, FL_ERR_NOMEM);
    assert_text(c.text, "the book is full");
    client_close(&c);
    stage_release(&s);
}

/* --- peers that do not keep to the rules ---------------------------------- */

typedef struct rude {
    fl_conn *c;
    fl_hello hello;
    fl_pack hello_bytes;
    uint64_t sequence; /* of a push that is sent when it is welcome */
    uint32_t rank;     /* of that push */
    bool is_closed, is_welcome;
    char text[FL_ERR_TEXT_MAX]; /* an error that came */
} rude;

static void rude_prove(rude *r, const fl_payload *challenge)
{
    fl_frame f = { .type = FL_TYPE_PROOF };
    uint8_t nonce[FL_NONCE_BYTES], proof[FL_PROOF_BYTES];
    fl_auth_input in = { .label = "client",
                         .client_nonce = r->hello.nonce,
                         .server_nonce = nonce,
                         .identity = r->hello_bytes.data,
                         .identity_len = r->hello_bytes.len };

    FL_ASSERT(fl_handshake_read32(challenge, nonce) == FL_OK);
    fl_auth_proof("token", &in, proof);
    fl_conn_send_copy(r->c, &f, proof, sizeof(proof));
}

static void rude_message(void *arg, fl_conn *c, const fl_frame *f,
                         fl_payload *payload)
{
    rude *r = arg;
    fl_frame push = {
        .type = TYPE_ADD, .request = 1, .sequence = r->sequence, .rank = r->rank
    };

    if (f->flags & FL_FRAME_ERROR) {
        (void)fl_error_read(payload);
        snprintf(r->text, sizeof(r->text), "%s", fl_last_error());
    } else if (f->type == FL_TYPE_CHALLENGE) {
        rude_prove(r, payload);
    } else if (f->type == FL_TYPE_WELCOME) {
        r->is_welcome = true;
        fl_conn_send_copy(c, &push, NULL, 0);
    }
    fl_payload_free(payload);
}

static void rude_close(void *arg, fl_conn *c, fl_status why)
{
    (void)c;
    (void)why;
    ((rude *)arg)->is_closed = true;
}

static void rude_dialled(void *arg, fl_stream *s)
{
    static const fl_conn_events events = { .on_message = rude_message,
                                           .on_close = rude_close };
    fl_conn_options o = { .max_bytes = 1 << 20,
                          .window_bytes = 1 << 20,
                          .names = type_name };
    fl_frame f = { .type = FL_TYPE_HELLO };
    rude *r = arg;

    FL_ASSERT(s != NULL);
    fl_hello_pack(&r->hello_bytes, &r->hello);
    r->c = fl_conn_new(s, &o, &events, r);
    fl_conn_send_copy(r->c, &f, r->hello_bytes.data, r->hello_bytes.len);
}

static void be_rude(rude *r, stage *s)
{
    void *handle;

    r->hello.wanted_role = FL_MEMBER_SERVER;
    r->hello.who =
        (fl_identity){ .role = FL_MEMBER_TRAINER, .rank = 1, .job = "job" };
    if (!r->hello.version)
        r->hello.version = FL_PROTOCOL_VERSION;
    assert_ok(s->net->ops->dial(
        s->net, &(fl_dial_args){ s->loop, s->address, 1000, rude_dialled, r },
        &handle));
    stage_run(s, 1000);
}

static void rude_release(rude *r)
{
    fl_conn_free(r->c);
    fl_pack_release(&r->hello_bytes);
}

static void expect_version_refused(uint32_t version)
{
    rude r = { .hello.version = version };
    char words[128];
    stage s;

    stage_init(&s, &near_by);
    be_rude(&r, &s);
    (void)snprintf(words, sizeof(words),
                   "protocol version %u does not fit version %d here: run the "
                   "same release on all machines",
                   version, FL_PROTOCOL_VERSION);
    assert_text(r.text, words);
    assert_text(said, words);
    assert_false(r.is_closed); /* it may read why, and is closed then */
    stage_run(&s, 6000);
    assert_true(r.is_closed);
    rude_release(&r);
    stage_release(&s);
}

static void a_wrong_version_is_named(void **state)
{
    (void)state;
    expect_version_refused(FL_PROTOCOL_VERSION - 1);
    expect_version_refused(FL_PROTOCOL_VERSION + 1);
}

static void a_gap_in_the_numbers_ends_the_connection(void **state)
{
    rude r = { .sequence = 2, .rank = 1 };
    stage s;

    (void)state;
    stage_init(&s, &near_by);
    be_rude(&r, &s);
    assert_true(r.is_welcome);
    assert_text(r.text, "request number 2 leaves a gap");
    assert_string_equal(s.b.log, "up 1;down 1 badly;");
    assert_int_equal(s.b.n_pushes, 0);
    rude_release(&r);
    stage_release(&s);
}

static void nobody_speaks_for_another_rank(void **state)
{
    rude r = { .sequence = 1, .rank = 2 };
    stage s;

    (void)state;
    stage_init(&s, &near_by);
    be_rude(&r, &s);
    assert_text(r.text, "a message of rank 2");
    assert_int_equal(s.b.n_pushes, 0);
    rude_release(&r);
    stage_release(&s);
}

/* A server that takes everybody's proof, and has none of its own. */
static void false_message(void *arg, fl_conn *c, const fl_frame *f,
                          fl_payload *payload)
{
    fl_welcome w = { .who = { .role = FL_MEMBER_SERVER, .job = "job" } };
    fl_frame out = { .type = FL_TYPE_CHALLENGE };
    fl_pack p = { 0 };

    (void)arg;
    if (f->type == FL_TYPE_HELLO) {
        fl_conn_send_copy(c, &out, w.proof, sizeof(w.proof));
    } else if (f->type == FL_TYPE_PROOF) {
        out.type = FL_TYPE_WELCOME;
        fl_welcome_pack(&p, &w);
        fl_pack_bytes(&p, w.proof, sizeof(w.proof));
        fl_conn_send_copy(c, &out, p.data, p.len);
        fl_pack_release(&p);
    }
    fl_payload_free(payload);
}

static void false_accept(void *arg, fl_stream *s)
{
    static const fl_conn_events events = { .on_message = false_message,
                                           .on_close = rude_close };
    fl_conn_options o = { .max_bytes = 1 << 20,
                          .window_bytes = 1 << 20,
                          .names = type_name };
    rude *r = arg;

    FL_ASSERT(!r->c);
    r->c = fl_conn_new(s, &o, &events, r);
}

static void a_server_without_the_token_is_not_believed(void **state)
{
    fl_rpc_client_options o = kit_link_options(0);
    char address[FL_ADDRESS_MAX];
    fl_listener *door;
    rude r = { 0 };
    stage s;
    client c;

    (void)state;
    stage_init(&s, &near_by);
    assert_ok(s.net->ops->listen(
        s.net, &(fl_listen_args){ "false:1", s.loop, NULL, false_accept, &r },
        &door, address));
    client_open(&c, s.loop, s.net, address, &o);
    stage_run(&s, 1000);
    assert_string_equal(c.states, "F");
    assert_text(c.text, "does not know the token");
    client_close(&c);
    rude_release(&r);
    s.net->ops->unlisten(door);
    stage_release(&s);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, listen_to_log, leave_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wrong_token_gets_no_word),
        TEST(an_address_is_logged_once),
        TEST(a_wrong_job_is_told_and_the_right_one_is_not),
        TEST(a_wrong_rank_is_named),
        TEST(the_owner_may_refuse),
        TEST(a_wrong_version_is_named),
        TEST(a_gap_in_the_numbers_ends_the_connection),
        TEST(nobody_speaks_for_another_rank),
        TEST(a_server_without_the_token_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
