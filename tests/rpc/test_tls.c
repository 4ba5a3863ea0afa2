/* test_tls.c - TLS over socket pairs: what gets through, when it is told, and
 * how streams end. */
#include "tls_kit.h"

/* --- files ---------------------------------------------------------------- */

static void expect_files(const char *ca, const char *cert, const char *k,
                         const char *named, const char *said)
{
    fl_tls *t = NULL;

    assert_int_equal(fl_tls_new(&t, &(fl_tls_files){ ca, cert, k }),
                     FL_ERR_INVAL);
    assert_null(t);
    if (!strstr(fl_last_error(), named) || !strstr(fl_last_error(), said))
        fail_msg("'%s' does not say '%s ... %s'", fl_last_error(), named, said);
}

static void files_that_do_not_fit_are_named(void **state)
{
    const char *ca = crt[OURS], *c = crt[MEMBER], *k = key[MEMBER];

    (void)state;
    expect_files("/nowhere/ca", c, k, "/nowhere/ca", "No such file");
    expect_files(ca, "/nowhere/crt", k, "/nowhere/crt", "No such file");
    expect_files(ca, c, "/nowhere/key", "/nowhere/key", "No such file");
    expect_files(junk, c, k, junk, "authority");
    expect_files(ca, junk, k, junk, "certificate");
    expect_files(ca, c, junk, junk, "key");
    expect_files(ca, c, key[OTHER], key[OTHER], "mismatch");
    expect_files(ca, c, locked_key, locked_key, "no password");
    expect_files(crt[THEIRS], c, k, c, "not signed by this authority");
    expect_files(ca, crt[EXPIRED], key[EXPIRED], crt[EXPIRED], "is expired");
    expect_files(ca, crt[EARLY], key[EARLY], crt[EARLY], "not valid yet");
    expect_files(ca, crt[HALF], key[HALF], crt[HALF], "extendedKeyUsage");
}

/* --- traffic -------------------------------------------------------------- */

static uint8_t byte_at(uint64_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static uint64_t draw(end *e, uint64_t below)
{
    return fl_mix64(++e->draws) % below;
}

/* Offers a small piece and a large one, of other lengths each time, also after
   a write that took nothing. */
static void send_some(end *e)
{
    while (e->sent < e->to_send) {
        uint64_t left = e->to_send - e->sent;
        size_t head = 1 + draw(e, sizeof(e->head));
        size_t body = draw(e, PIECE_MAX);
        struct iovec v[3] = { { e->head, 0 }, { NULL, 0 }, { e->piece, 0 } };
        ptrdiff_t n;

        v[0].iov_len = head < left ? head : left;
        left -= v[0].iov_len;
        v[2].iov_len = body < left ? body : left;
        for (size_t i = 0; i < v[0].iov_len; i++)
            e->head[i] = byte_at(e->sent + i);
        for (size_t i = 0; i < v[2].iov_len; i++)
            e->piece[i] = byte_at(e->sent + v[0].iov_len + i);
        n = e->s->ops->write(e->s, v, 3);
        if (n < 0)
            return;
        e->sent += (uint64_t)n;
    }
}

/* False when the stream is gone. */
static bool get_some(end *e)
{
    do {
        size_t want = e->per_event ? e->per_event : 1 + draw(e, PIECE_MAX);
        ptrdiff_t n = e->s->ops->read(e->s, e->piece, want);

        if (n < 0)
            return n == FL_STREAM_AGAIN;
        for (size_t i = 0; i < (size_t)n; i++)
            e->n_wrong += e->piece[i] != byte_at(e->got + i);
        e->got += (uint64_t)n;
    } while (!e->per_event);
    return true;
}

static void on_traffic(void *arg, unsigned events)
{
    end *e = arg;
    unsigned wants = FL_IO_READ;

    e->n_events++;
    if ((events & FL_IO_READ) && !get_some(e)) {
        keep_why(e);
        drop_stream(e);
        set(e, &e->is_done);
        return;
    }
    if (events & FL_IO_WRITE)
        send_some(e);
    if (e->sent < e->to_send)
        wants |= FL_IO_WRITE;
    e->s->ops->want(e->s, wants);
    if (e->sent == e->to_send && e->got == e->to_get)
        set(e, &e->is_done);
}

static void go_traffic(end *e)
{
    e->s->ready = on_traffic;
    e->s->arg = e;
    e->s->ops->want(e->s, FL_IO_READ | FL_IO_WRITE);
}

static void exchange(uint64_t up, uint64_t down, size_t per_event)
{
    fl_loop *loops[2] = { new_loop(), new_loop() };
    end *e[2];
    int fd[2];

    make_pair(fd, false);
    e[0] = new_end(loops[0], member, FL_TLS_SERVER, fd[0]);
    e[1] = new_end(loops[1], other, FL_TLS_CLIENT, fd[1]);
    e[0]->to_get = e[1]->to_send = up;
    e[0]->to_send = e[1]->to_get = down;
    for (int i = 0; i < 2; i++) {
        e[i]->per_event = per_event;
        e[i]->go = go_traffic;
        start_end(e[i]);
    }
    for (int i = 0; i < 2; i++) {
        wait_for(e[i], &e[i]->is_shaken);
        if (e[i]->was_refused)
            fail_msg("%s", e[i]->why);
        wait_for(e[i], &e[i]->is_done);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(e[i]->n_wrong, 0);
        assert_true(e[i]->got == e[i]->to_get);
        free_end(e[i]);
    }
    fl_loop_free(loops[0]);
    fl_loop_free(loops[1]);
}

static void ten_megabytes_go_both_ways_at_once(void **state)
{
    (void)state;
    exchange(10 << 20, 10 << 20, 0);
}

static void bytes_that_wait_inside_make_events(void **state)
{
    (void)state;
    exchange(40000, 20000, 7);
}

/* --- events and ends ------------------------------------------------------ */

/* A server of ours in `loop` and a client by OpenSSL, both content. */
static end *meet(fl_loop *loop, end_fn go, uint64_t to_get, raw *r)
{
    int fd[2];
    end *e;

    make_pair(fd, true);
    e = new_end(loop, member, FL_TLS_SERVER, fd[0]);
    e->go = go;
    e->to_get = to_get;
    start_end(e);
    *r = raw_open(fd[1], OTHER, OURS);
    assert_int_equal(SSL_connect(r->ssl), 1);
    wait_for(e, &e->is_shaken);
    assert_false(e->was_refused);
    return e;
}

static void raw_send(raw *r, uint64_t from, int n)
{
    char bytes[4096];

    assert_true(n <= (int)sizeof(bytes));
    for (int i = 0; i < n; i++)
        bytes[i] = (char)byte_at(from + (uint64_t)i);
    assert_int_equal(SSL_write(r->ssl, bytes, n), n);
}

static void keys_may_change_on_the_way(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, go_traffic, 50 * 1000, &r);
    char byte;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(SSL_key_update(r.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        raw_send(&r, (uint64_t)i * 1000, 1000);
    }
    wait_for(e, &e->is_done);
    assert_int_equal(e->n_wrong, 0);
    free_end(e);
    /* The answers to the updates, and then the goodbye. */
    assert_int_equal(SSL_read(r.ssl, &byte, 1), 0);
    assert_int_equal(SSL_get_error(r.ssl, 0), SSL_ERROR_ZERO_RETURN);
    raw_close(&r);
    fl_loop_free(loop);
}

static void a_goodbye_is_an_end_with_a_sentence(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, go_traffic, 1001, &r);

    (void)state;
    raw_send(&r, 0, 1000);
    assert_int_equal(SSL_shutdown(r.ssl), 0);
    wait_for(e, &e->is_done);
    assert_int_equal(e->got, 1000);
    assert_string_equal(e->why, "the.client:1 closed the connection");
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

static void an_end_in_the_middle_of_a_record_is_an_end(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, go_traffic, 1001, &r);

    (void)state;
    raw_send(&r, 0, 1000);
    assert_int_equal(write(r.fd, "\x17\x03\x03\x01\x00half", 9), 9);
    raw_close(&r);
    wait_for(e, &e->is_done);
    assert_int_equal(e->got, 1000);
    assert_true(strlen(e->why) > 0);
    free_end(e);
    fl_loop_free(loop);
}

static void a_forged_record_ends_the_stream(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, go_traffic, 1001, &r);
    char forged[5 + 64] = "\x17\x03\x03\x00\x40";

    (void)state;
    raw_send(&r, 0, 1000);
    assert_int_equal(write(r.fd, forged, sizeof(forged)), sizeof(forged));
    wait_for(e, &e->is_done);
    assert_int_equal(e->got, 1000);
    assert_non_null(strstr(e->why, "TLS with the.client:1 failed"));
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

static void write_now(void *arg)
{
    end *e = arg;
    struct iovec v = { e->head, sizeof(e->head) };

    while (e->s->ops->write(e->s, &v, 1) > 0)
        continue;
    e->n_wrong = e->s->ops->write(e->s, &v, 1) != FL_STREAM_GONE;
    keep_why(e);
    set(e, &e->is_done);
}

static void writing_to_a_peer_that_reads_no_more_is_an_end(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, NULL, 0, &r);

    (void)state;
    assert_int_equal(shutdown(r.fd, SHUT_RD), 0);
    fl_loop_post(loop, write_now, e);
    wait_for(e, &e->is_done);
    assert_int_equal(e->n_wrong, 0);
    assert_non_null(strstr(e->why, "the.client:1"));
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

/* Posts itself a number of times: rounds of the loop go by. */
static void let_rounds_pass(void *arg)
{
    end *e = arg;

    if (e->n_left > 0) {
        e->n_left--;
        fl_loop_post(e->loop, let_rounds_pass, e);
        return;
    }
    e->n_events_then = e->n_events;
    set(e, &e->has_passed);
}

static uint64_t events_after(end *e, uint64_t n_rounds)
{
    e->has_passed = false;
    e->n_left = n_rounds;
    fl_loop_post(e->loop, let_rounds_pass, e);
    wait_for(e, &e->has_passed);
    return e->n_events_then;
}

static void half_a_record_makes_one_event_and_no_more(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, go_traffic, 1000, &r);
    uint64_t before;

    (void)state;
    raw_send(&r, 0, 1000);
    wait_for(e, &e->is_done);
    before = events_after(e, 10);
    assert_int_equal(write(r.fd, "\x17\x03\x03\x01\x00half", 9), 9);
    assert_in_range(events_after(e, 1000) - before, 0, 1);
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

/* Reads a little of each record, then wants nothing for a while. */
static void on_pause(void *arg, unsigned events);

static void end_pause(void *arg)
{
    end *e = arg;

    if (!e->s)
        return;
    e->n_wrong += e->n_left != 0; /* events that came in the pause */
    e->s->ready = on_traffic;
    e->s->ops->want(e->s, FL_IO_READ);
}

static void on_quiet(void *arg, unsigned events)
{
    (void)events;
    ((end *)arg)->n_left++;
}

static void on_pause(void *arg, unsigned events)
{
    end *e = arg;

    (void)events;
    e->per_event = 5;
    if (!get_some(e) || e->got == 0)
        return;
    e->s->ready = on_quiet;
    e->s->ops->want(e->s, 0);
    (void)fl_loop_timer(e->loop, 5, end_pause, e);
}

static void go_pause(end *e)
{
    e->s->ready = on_pause;
    e->s->arg = e;
    e->s->ops->want(e->s, FL_IO_READ);
}

static void a_stream_that_is_not_wanted_is_quiet_until_it_is(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, go_pause, 2000, &r);

    (void)state;
    raw_send(&r, 0, 1000);
    raw_send(&r, 1000, 1000);
    wait_for(e, &e->is_done);
    assert_int_equal(e->n_wrong, 0);
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

/* Leaves bytes inside, so that a post is under way, and closes. */
static void close_with_rest(void *arg, unsigned events)
{
    end *e = arg;

    (void)events;
    if (e->s->ops->read(e->s, e->piece, 1) != 1)
        return;
    e->s->ops->want(e->s, FL_IO_READ);
    drop_stream(e);
    set(e, &e->is_done);
}

static void post_and_close(end *e)
{
    e->s->ready = close_with_rest;
    e->s->arg = e;
    e->s->ops->want(e->s, FL_IO_READ);
}

static void read_and_close(void *arg)
{
    end *e = arg;

    (void)e->s->ops->read(e->s, e->piece, 1);
    e->s->ops->want(e->s, FL_IO_READ); /* posts */
    drop_stream(e);
    set(e, &e->is_done);
}

static void closing_with_bytes_inside_is_fine(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, post_and_close, 0, &r);

    (void)state;
    raw_send(&r, 0, 1000);
    wait_for(e, &e->is_done);
    raw_close(&r);
    free_end(e);

    e = meet(loop, NULL, 0, &r);
    raw_send(&r, 0, 1000);
    fl_loop_post(loop, read_and_close, e);
    wait_for(e, &e->is_done);
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

static void a_secret_stream_says_so_and_names_its_peer(void **state)
{
    fl_loop *loop = new_loop();
    raw r;
    end *e = meet(loop, NULL, 0, &r);

    (void)state;
    assert_true(e->s->is_secret);
    assert_false(e->s->is_local);
    assert_null(e->s->ops->send_fd);
    assert_string_equal(e->s->peer, "the.client:1");
    raw_close(&r);
    free_end(e);
    fl_loop_free(loop);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_do_not_fit_are_named),
        cmocka_unit_test(ten_megabytes_go_both_ways_at_once),
        cmocka_unit_test(bytes_that_wait_inside_make_events),
        cmocka_unit_test(keys_may_change_on_the_way),
        cmocka_unit_test(a_goodbye_is_an_end_with_a_sentence),
        cmocka_unit_test(an_end_in_the_middle_of_a_record_is_an_end),
        cmocka_unit_test(a_forged_record_ends_the_stream),
        cmocka_unit_test(writing_to_a_peer_that_reads_no_more_is_an_end),
        cmocka_unit_test(half_a_record_makes_one_event_and_no_more),
        cmocka_unit_test(a_stream_that_is_not_wanted_is_quiet_until_it_is),
        cmocka_unit_test(closing_with_bytes_inside_is_fine),
        cmocka_unit_test(a_secret_stream_says_so_and_names_its_peer),
    };

    signal(SIGPIPE, SIG_IGN); /* SSL_set_fd writes without MSG_NOSIGNAL */
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
