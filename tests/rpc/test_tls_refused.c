/* test_tls_refused.c - who is refused by TLS, and with which words. */
#include "tls_kit.h"

/* A server of ours and a client by OpenSSL that connects and reads. */
static void expect_client_refused(int who, int max_version, const char *said)
{
    fl_loop *loop = new_loop();
    int fd[2];
    end *e;
    raw r;
    char byte;

    make_pair(fd, true);
    e = new_end(loop, member, FL_TLS_SERVER, fd[0]);
    start_end(e);
    r = raw_open(fd[1], who, -1);
    SSL_set_max_proto_version(r.ssl, max_version);
    assert_true(SSL_connect(r.ssl) != 1 || SSL_read(r.ssl, &byte, 1) <= 0);
    expect_refused(e, said);
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

static void a_client_without_a_certificate_is_refused(void **state)
{
    (void)state;
    expect_client_refused(-1, TLS1_3_VERSION, "it showed no certificate");
}

static void a_client_of_another_authority_is_refused(void **state)
{
    (void)state;
    expect_client_refused(STRANGER, TLS1_3_VERSION,
                          "its certificate was not signed by this authority");
}

static void an_authority_is_no_authority_by_its_name(void **state)
{
    test_cert forged_ca = { 0 }, forged = { 0 }, real = certs[STRANGER];

    (void)state;
    assert_true(test_cert_make(&forged_ca, plans[OURS].name, NULL, -CERT_HOUR,
                               CERT_HOUR, NULL));
    assert_true(test_cert_make(&forged, "forged", &forged_ca, -CERT_HOUR,
                               CERT_HOUR, NULL));
    certs[STRANGER] = forged;
    expect_client_refused(STRANGER, TLS1_3_VERSION,
                          "its certificate was not signed by this authority");
    certs[STRANGER] = real;
    test_cert_release(&forged);
    test_cert_release(&forged_ca);
}

static void an_expired_client_is_refused(void **state)
{
    (void)state;
    expect_client_refused(EXPIRED, TLS1_3_VERSION,
                          "its certificate is expired");
}

static void a_certificate_for_servers_only_is_refused_from_a_client(void **st)
{
    (void)st;
    expect_client_refused(HALF, TLS1_3_VERSION, "extendedKeyUsage");
}

static void a_client_of_an_older_version_is_refused(void **state)
{
    (void)state;
    expect_client_refused(MEMBER, TLS1_2_VERSION, "does not speak TLS 1.3");
}

/* A client of ours and a server by OpenSSL. */
static void expect_server_refused(int who, int max_version, const char *said)
{
    fl_loop *loop = new_loop();
    int fd[2];
    end *e;
    raw r;

    make_pair(fd, true);
    e = new_end(loop, member, FL_TLS_CLIENT, fd[0]);
    start_end(e);
    r = raw_open(fd[1], who, -1);
    SSL_set_max_proto_version(r.ssl, max_version);
    assert_int_not_equal(SSL_accept(r.ssl), 1);
    expect_refused(e, said);
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

static void a_server_must_be_of_the_authority_too(void **state)
{
    (void)state;
    expect_server_refused(STRANGER, TLS1_3_VERSION,
                          "its certificate was not signed by this authority");
    expect_server_refused(EXPIRED, TLS1_3_VERSION,
                          "its certificate is expired");
    expect_server_refused(MEMBER, TLS1_2_VERSION, "does not speak TLS 1.3");
}

static void members_of_two_authorities_refuse_each_other(void **state)
{
    fl_loop *loop = new_loop();
    int fd[2];
    end *server, *client;

    (void)state;
    make_pair(fd, false);
    server = new_end(loop, member, FL_TLS_SERVER, fd[0]);
    client = new_end(loop, stranger, FL_TLS_CLIENT, fd[1]);
    start_end(server);
    start_end(client);
    expect_refused(client, "its certificate was not signed by this authority");
    expect_refused(server, "it refused our certificate");
    free_end(server);
    free_end(client);
    fl_loop_free(loop);
}

/* --- a client that is refused after its handshake ------------------------- */

static void read_once(void *arg, unsigned events)
{
    end *e = arg;

    (void)events;
    if (e->s->ops->read(e->s, e->piece, 1) == FL_STREAM_AGAIN)
        return;
    keep_why(e);
    drop_stream(e);
    set(e, &e->is_done);
}

static void go_read(end *e)
{
    e->s->ready = read_once;
    e->s->arg = e;
    e->s->ops->want(e->s, FL_IO_READ);
}

static void write_now(void *arg)
{
    end *e = arg;
    struct iovec v = { e->head, sizeof(e->head) };

    if (e->s->ops->write(e->s, &v, 1) == FL_STREAM_GONE)
        keep_why(e);
    set(e, &e->is_done);
}

/* Lets a server by OpenSSL refuse a client of ours. */
static end *refuse_client(fl_loop *loop, end_fn go)
{
    int fd[2];
    end *e;
    raw r;

    make_pair(fd, true);
    e = new_end(loop, member, FL_TLS_CLIENT, fd[0]);
    e->go = go;
    start_end(e);
    r = raw_open(fd[1], MEMBER, THEIRS);
    assert_int_not_equal(SSL_accept(r.ssl), 1);
    raw_close(&r);
    wait_for(e, &e->is_shaken);
    assert_false(e->was_refused);
    return e;
}

static void a_refused_client_reads_why(void **state)
{
    fl_loop *loop = new_loop();
    end *e = refuse_client(loop, go_read);

    (void)state;
    wait_for(e, &e->is_done);
    assert_non_null(strstr(e->why, "it refused our certificate"));
    assert_non_null(strstr(e->why, "the.server:2"));
    free_end(e);
    fl_loop_free(loop);
}

static void a_refused_client_that_writes_learns_why(void **state)
{
    fl_loop *loop = new_loop();
    end *e = refuse_client(loop, NULL);

    (void)state;
    fl_loop_post(loop, write_now, e);
    wait_for(e, &e->is_done);
    if (!strstr(e->why, "it refused our certificate"))
        fail_msg("'%s'", e->why);
    free_end(e);
    fl_loop_free(loop);
}

/* --- what is not TLS ------------------------------------------------------ */

static void expect_bytes_refused(fl_tls_side side, const char *bytes, size_t n,
                                 const char *said)
{
    fl_loop *loop = new_loop();
    int fd[2];
    end *e;

    make_pair(fd, true);
    e = new_end(loop, member, side, fd[0]);
    assert_int_equal(write(fd[1], bytes, n), n);
    assert_int_equal(shutdown(fd[1], SHUT_WR), 0);
    start_end(e);
    expect_refused(e, said);
    close(fd[1]);
    free_end(e);
    fl_loop_free(loop);
}

static void peers_that_do_not_speak_tls_are_told_apart(void **state)
{
    static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    static const char frame[64] = "FLT1\1";
    static const char noise[64] = "\xde\xad\xbe\xef and so on";
    static const char spoilt[64] = "\x16\x03\x01\x00\x20\x01\xff\xff\xff";

    (void)state;
    for (int side = FL_TLS_SERVER; side <= FL_TLS_CLIENT; side++) {
        expect_bytes_refused(side, get, sizeof(get) - 1, "plain HTTP");
        expect_bytes_refused(side, answer, sizeof(answer) - 1, "plain HTTP");
        expect_bytes_refused(side, frame, sizeof(frame), "without TLS");
        expect_bytes_refused(side, noise, sizeof(noise), "not TLS");
        expect_bytes_refused(side, noise, 2, "not TLS");
        expect_bytes_refused(side, spoilt, sizeof(spoilt), "failed");
        expect_bytes_refused(side, "", 0, "in the handshake");
        expect_bytes_refused(side, spoilt, 5, "in the handshake");
    }
}

/* Every length of a good client's first bytes, then an end. */
static void a_handshake_that_is_cut_anywhere_is_refused(void **state)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    char hello[4096];
    int n;

    (void)state;
    SSL_set_bio(ssl, in, out);
    assert_int_equal(SSL_connect(ssl), -1);
    n = BIO_read(out, hello, sizeof(hello));
    assert_true(n > 64);
    for (int len = 0; len < n; len += 17)
        expect_bytes_refused(FL_TLS_SERVER, hello, (size_t)len,
                             "in the handshake");
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void a_silent_peer_runs_into_the_deadline(void **state)
{
    fl_loop *loop = new_loop();
    int fd[2];
    end *e;

    (void)state;
    for (int side = FL_TLS_SERVER; side <= FL_TLS_CLIENT; side++) {
        make_pair(fd, true);
        e = new_end(loop, member, side, fd[0]);
        e->timeout_ms = 20;
        start_end(e);
        expect_refused(e, "within 20 ms");
        free_end(e);
        close(fd[1]);
    }
    fl_loop_free(loop);
}

static void a_handshake_can_be_cancelled(void **state)
{
    fl_loop *loop = new_loop();
    int fd[2];
    end *e;
    char byte;

    (void)state;
    for (int round = 0; round < 2; round++) {
        make_pair(fd, true);
        e = new_end(loop, member, FL_TLS_CLIENT, fd[0]);
        start_end(e);
        if (round == 1) /* it is under way once its first bytes are here */
            assert_int_equal(recv(fd[1], &byte, 1, MSG_PEEK), 1);
        fl_loop_post(loop, close_stream, e);
        wait_for(e, &e->is_closed);
        assert_false(e->is_shaken);
        while (read(fd[1], &byte, 1) == 1)
            continue;
        free_end(e);
        close(fd[1]);
    }
    fl_loop_free(loop);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_without_a_certificate_is_refused),
        cmocka_unit_test(a_client_of_another_authority_is_refused),
        cmocka_unit_test(an_authority_is_no_authority_by_its_name),
        cmocka_unit_test(an_expired_client_is_refused),
        cmocka_unit_test(
            a_certificate_for_servers_only_is_refused_from_a_client),
        cmocka_unit_test(a_client_of_an_older_version_is_refused),
        cmocka_unit_test(a_server_must_be_of_the_authority_too),
        cmocka_unit_test(members_of_two_authorities_refuse_each_other),
        cmocka_unit_test(a_refused_client_reads_why),
        cmocka_unit_test(a_refused_client_that_writes_learns_why),
        cmocka_unit_test(peers_that_do_not_speak_tls_are_told_apart),
        cmocka_unit_test(a_handshake_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(a_silent_peer_runs_into_the_deadline),
        cmocka_unit_test(a_handshake_can_be_cancelled),
    };

    signal(SIGPIPE, SIG_IGN); /* SSL_set_fd writes without MSG_NOSIGNAL */
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
