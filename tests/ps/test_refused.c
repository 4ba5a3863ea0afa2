/* test_refused.c - who and what is not let in, and that a server goes on
 * serving its own meanwhile. */
#include "refuse_kit.h"

#include "../rpc/certs.h"

#include <openssl/ssl.h>

#define TOKEN "token"
#define TEN_GB (UINT64_C(10) << 30)

static int open_house(void **state)
{
    *state = house_open("join_token=" TOKEN);
    return 0;
}

static int close_house(void **state)
{
    house_close(*state);
    return 0;
}

/* --- tokens, jobs and versions -------------------------------------------- */

static void a_wrong_token_is_refused(void **state)
{
    expect_refused(*state, "join_token=wrong", "token");
}

static void no_token_is_refused(void **state)
{
    expect_refused(*state, "join_token=", "token");
}

static void another_job_is_refused(void **state)
{
    expect_refused(*state, "join_token=" TOKEN " job=other",
                   "job 'other' is not the job here");
}

/* Everything that a server says to somebody without the token. */
static size_t hear_all(int fd, char *out, size_t cap)
{
    size_t n = 0;
    ssize_t got;

    while (n < cap && (got = recv(fd, out + n, cap - n, 0)) > 0)
        n += (size_t)got;
    return n;
}

static void a_stranger_is_not_told_the_jobs_name(void **state)
{
    static const uint8_t guess[FL_PROOF_BYTES] = { 7 };
    house *h = *state;
    uint64_t hash = house_hash(h);
    char heard[4096];

    for (uint32_t rank = 0; rank < 2; rank++) {
        raw_client c = raw_tool(rank ? "guess" : "", "", 7);
        fl_frame proof = raw_head(&c, FL_TYPE_PROOF);
        int fd = raw_dial(h->port);
        size_t n;

        c.hello.wanted_rank = rank; /* the wrong one is not told, either */
        assert_true(raw_hello(fd, &c));
        assert_true(raw_send(fd, &proof, guess, sizeof(guess)));
        n = hear_all(fd, heard, sizeof(heard));
        assert_int_equal(n, FL_FRAME_BYTES + FL_NONCE_BYTES);
        assert_null(memmem(heard, n, "flotilla", 8));
        fl_pack_release(&c.said);
        close(fd);
    }
    expect_healthy(h, hash);
}

static void the_look_token_shows_a_job_and_does_not_end_it(void **state)
{
    house *h = *state;
    uint64_t hash = house_hash(h);
    fl_ctx *c = make_ctx();
    fl_job_status *status;
    char *look;

    assert_ok(fl_job_look_token(h->ctx, h->job.servers, &look));
    assert_null(strstr(look, TOKEN));
    assert_ok(set_all(c, "local_transport=off"));
    assert_ok(fl_ctx_set(c, "look_token", look));
    assert_ok(fl_job_status_get(&status, c, h->job.servers));
    fl_job_status_free(status);
    assert_int_equal(fl_job_shutdown(c, h->job.servers), FL_ERR_INVAL);
    assert_says("the join token is needed to change or end a job");
    fl_ctx_free(c);
    fl_text_free(look);
    expect_healthy(h, hash);
}

static void the_look_token_does_not_join(void **state)
{
    house *h = *state;
    char *look, settings[128];

    assert_ok(fl_job_look_token(h->ctx, h->job.servers, &look));
    (void)snprintf(settings, sizeof(settings), "join_token=%s", look);
    expect_refused(h, settings, "token");
    fl_text_free(look);
}

static void another_version_is_told_so(void **state)
{
    house *h = *state;
    uint64_t hash = house_hash(h);
    raw_client c = raw_tool("flotilla", TOKEN, 7);
    int fd = raw_dial(h->port);
    raw_message m;

    c.hello.version = FL_PROTOCOL_VERSION + 1;
    assert_true(raw_hello(fd, &c));
    assert_true(raw_receive(fd, &m));
    assert_int_equal(m.frame.flags, FL_FRAME_REPLY | FL_FRAME_ERROR);
    m.bytes[m.frame.length] = '\0';
    assert_non_null(strstr((const char *)m.bytes + 8, "does not fit version"));
    fl_pack_release(&c.said);
    close(fd);
    expect_healthy(h, hash);
}

/* --- a server that is none ------------------------------------------------ */

typedef struct impostor {
    int door;
    fl_thread *thread;
} impostor;

/* Takes any proof for good, and has none of its own. */
static void deceive(int fd)
{
    fl_welcome w = {
        .who = { .role = FL_MEMBER_SERVER, .boot_id = 1, .job = "flotilla" }
    };
    fl_frame challenge = { .type = FL_TYPE_CHALLENGE };
    fl_frame welcome = { .type = FL_TYPE_WELCOME };
    uint8_t nonce[FL_NONCE_BYTES] = { 1 };
    fl_pack p = { 0 };
    raw_message m;

    fl_welcome_pack(&p, &w);
    fl_pack_bytes(&p, w.proof, sizeof(w.proof));
    if (raw_receive(fd, &m) && raw_send(fd, &challenge, nonce, sizeof(nonce)) &&
        raw_receive(fd, &m) && raw_send(fd, &welcome, p.data, p.len))
        (void)raw_is_closed(fd);
    fl_pack_release(&p);
}

static void run_impostor(void *arg)
{
    const impostor *i = arg;
    int fd = accept4(i->door, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0)
        deceive(fd);
    close(fd);
}

static void a_server_without_the_token_is_refused(void **state)
{
    uint16_t port = free_port();
    impostor i = { .door = port_listen(port) };
    fl_ctx *c = make_ctx();
    char address[32];
    fl_job *p;

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    assert_ok(fl_thread_start(&i.thread, "impostor", run_impostor, &i));
    assert_ok(set_all(c, "join_token=" TOKEN " local_transport=off"));
    assert_int_equal(fl_job_connect(&p, c, .servers = address), FL_ERR_INVAL);
    assert_says("does not know the token");
    fl_thread_join(i.thread);
    close(i.door);
    fl_ctx_free(c);
    expect_healthy(*state, house_hash(*state));
}

/* --- bytes that are no messages ------------------------------------------- */

static void a_browser_is_refused(void **state)
{
    static const char get[] =
        "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a browser\r\n"
        "Accept: */*\r\n\r\n";

    expect_closed(*state, get, sizeof(get) - 1);
}

static void random_bytes_are_refused(void **state)
{
    uint8_t bytes[2048];

    for (uint64_t round = 0; round < 20; round++) {
        size_t n = FL_FRAME_BYTES + (size_t)(fl_mix64(round) % 1900);

        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)fl_mix64((round << 32) + i);
        expect_closed(*state, bytes, n);
    }
}

/* The right magic, then anything. */
static void random_frames_are_refused(void **state)
{
    static const uint8_t magic[4] = "FLT1";
    uint8_t bytes[512];

    for (uint64_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)fl_mix64((round << 40) + i);
        memcpy(bytes, magic, sizeof(magic));
        expect_closed(*state, bytes, sizeof(bytes));
    }
}

static void ten_gigabytes_of_a_stranger_are_refused(void **state)
{
    fl_frame f = { .type = FL_TYPE_HELLO, .length = TEN_GB };
    uint8_t head[FL_FRAME_BYTES];

    fl_frame_write(&f, head);
    expect_closed(*state, head, sizeof(head));
}

static void ten_gigabytes_of_a_tool_are_refused(void **state)
{
    house *h = *state;
    uint64_t hash = house_hash(h);
    raw_client c = raw_tool("flotilla", TOKEN, 8);
    fl_frame f = raw_head(&c, FL_MSG_PULL);
    uint8_t head[FL_FRAME_BYTES];
    int fd = raw_dial(h->port);

    f.length = TEN_GB;
    fl_frame_write(&f, head);
    assert_true(raw_shake(fd, &c));
    assert_true(raw_write(fd, head, sizeof(head)));
    assert_true(raw_is_closed(fd));
    close(fd);
    expect_healthy(h, hash);
}

/* --- a session that was overheard ----------------------------------------- */

static void a_recorded_session_is_refused(void **state)
{
    house *h = *state;

    /* One connection to join, and one to push. */
    assert_int_equal(h->proxy.n_kept, 2);
    for (int i = 0; i < h->proxy.n_kept; i++) {
        assert_true(h->proxy.kept[i].n > 3 * FL_FRAME_BYTES);
        expect_closed(h, h->proxy.kept[i].bytes, h->proxy.kept[i].n);
    }
}

/* --- TLS ------------------------------------------------------------------ */

static char folder[] = "/tmp/flotilla-refused-XXXXXX";

static void write_cert(const test_cert *c, const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s.pem", folder, name);
    assert_true(test_cert_write(c, path));
    (void)snprintf(path, sizeof(path), "%s/%s.key", folder, name);
    assert_true(test_key_write(c, path, NULL));
}

static void remove_certs(void)
{
    static const char *const names[] = { "ca", "member", "other", "stranger" };
    char path[128];

    for (size_t i = 0; i < FL_LEN(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s.pem", folder, names[i]);
        unlink(path);
        (void)snprintf(path, sizeof(path), "%s/%s.key", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* An authority and its member, and those of somebody else. */
static void make_certs(void)
{
    test_cert ca = { 0 }, one = { 0 };
    static const char *const names[][2] = { { "ca", "member" },
                                            { "other", "stranger" } };

    for (int i = 0; i < 2; i++) {
        assert_true(test_cert_make(&ca, names[i][0], NULL, -CERT_HOUR,
                                   CERT_HOUR, NULL));
        assert_true(test_cert_make(&one, names[i][1], &ca, -CERT_HOUR,
                                   CERT_HOUR, NULL));
        write_cert(&ca, names[i][0]);
        write_cert(&one, names[i][1]);
        test_cert_release(&ca);
        test_cert_release(&one);
    }
}

static void tls_settings(char out[SETTINGS_MAX], const char *ca,
                         const char *cert)
{
    (void)snprintf(out, SETTINGS_MAX,
                   "join_token=" TOKEN " tls_ca=%s/%s.pem tls_cert=%s/%s.pem "
                   "tls_key=%s/%s.key",
                   folder, ca, folder, cert, folder, cert);
}

static int open_tls_house(void **state)
{
    char settings[SETTINGS_MAX];

    assert_non_null(mkdtemp(folder));
    make_certs();
    tls_settings(settings, "ca", "member");
    *state = house_open(settings);
    return 0;
}

static int close_tls_house(void **state)
{
    house_close(*state);
    remove_certs();
    return 0;
}

/* A client that asks for nothing, and shows the certificate that it is given.
   Its own handshake may end well: it is refused by the first answer. */
static void expect_tls_refused(house *h, const char *cert)
{
    uint64_t hash = house_hash(h);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int fd = raw_dial(h->port);
    char path[128], byte;
    SSL *ssl;

    if (cert) {
        (void)snprintf(path, sizeof(path), "%s/%s.pem", folder, cert);
        assert_int_equal(
            SSL_CTX_use_certificate_file(ctx, path, SSL_FILETYPE_PEM), 1);
        (void)snprintf(path, sizeof(path), "%s/%s.key", folder, cert);
        assert_int_equal(
            SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM), 1);
    }
    ssl = SSL_new(ctx);
    assert_true(fd >= 0 && SSL_set_fd(ssl, fd));
    if (SSL_connect(ssl) == 1)
        assert_true(SSL_read(ssl, &byte, 1) <= 0);
    assert_true(raw_is_closed(fd));
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    expect_healthy(h, hash);
}

static void a_certificate_of_another_authority_is_refused(void **state)
{
    char settings[SETTINGS_MAX];

    expect_tls_refused(*state, "stranger");
    tls_settings(settings, "other", "stranger");
    expect_refused(*state, settings, "certificate");
}

static void no_certificate_is_refused(void **state)
{
    expect_tls_refused(*state, NULL);
}

static void a_trainer_without_tls_is_refused(void **state)
{
    expect_refused(*state, "join_token=" TOKEN, "has closed the connection");
}

static void a_browser_is_refused_by_tls(void **state)
{
    a_browser_is_refused(state);
}

static void a_recorded_tls_session_is_refused(void **state)
{
    a_recorded_session_is_refused(state);
}

/* The other way round: a trainer with TLS, a server without. */
static void a_server_without_tls_is_refused(void **state)
{
    house *plain = house_open("join_token=" TOKEN);
    char settings[SETTINGS_MAX];

    tls_settings(settings, "ca", "member");
    expect_refused(plain, settings, "TLS with");
    house_close(plain);
    expect_healthy(*state, house_hash(*state));
}

int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(a_wrong_token_is_refused),
        cmocka_unit_test(no_token_is_refused),
        cmocka_unit_test(another_job_is_refused),
        cmocka_unit_test(a_stranger_is_not_told_the_jobs_name),
        cmocka_unit_test(the_look_token_shows_a_job_and_does_not_end_it),
        cmocka_unit_test(the_look_token_does_not_join),
        cmocka_unit_test(another_version_is_told_so),
        cmocka_unit_test(a_server_without_the_token_is_refused),
        cmocka_unit_test(a_browser_is_refused),
        cmocka_unit_test(random_bytes_are_refused),
        cmocka_unit_test(random_frames_are_refused),
        cmocka_unit_test(ten_gigabytes_of_a_stranger_are_refused),
        cmocka_unit_test(ten_gigabytes_of_a_tool_are_refused),
        cmocka_unit_test(a_recorded_session_is_refused),
    };
    const struct CMUnitTest secret[] = {
        cmocka_unit_test(a_certificate_of_another_authority_is_refused),
        cmocka_unit_test(no_certificate_is_refused),
        cmocka_unit_test(a_trainer_without_tls_is_refused),
        cmocka_unit_test(a_browser_is_refused_by_tls),
        cmocka_unit_test(a_recorded_tls_session_is_refused),
        cmocka_unit_test(a_server_without_tls_is_refused),
    };
    int failed;

    be_quiet();
    failed = cmocka_run_group_tests(plain, open_house, close_house);
    return failed +
           cmocka_run_group_tests(secret, open_tls_house, close_tls_house);
}
