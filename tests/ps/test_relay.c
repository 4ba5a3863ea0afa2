/* test_relay.c - bytes from trainer to trainer: mailboxes alone, and by servers
 * whose connections are cut. */
#include "client_kit.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "ps/server/relay.h"

/* --- a mailbox alone ---------------------------------------------------------- */

static fl_status put(fl_relay *m, uint32_t to, uint64_t generation,
                     const void *bytes, size_t len, bool *is_full)
{
    return fl_relay_put(
        m, &(fl_relay_request){ to, generation, { bytes, len } }, is_full);
}

static void put_text(fl_relay *m, uint32_t to, uint64_t generation,
                     const char *text)
{
    bool is_full;

    assert_ok(put(m, to, generation, text, strlen(text), &is_full));
    assert_false(is_full);
}

static void *give_room(void *arg, uint64_t len)
{
    fl_pack *p = arg;

    p->data = fl_realloc(p->data, (size_t)len);
    p->len = p->cap = (size_t)len;
    return p->data;
}

static fl_status take(fl_relay *m, uint32_t rank, uint64_t generation,
                      uint64_t seen, uint64_t max_bytes, fl_pack *out)
{
    fl_store_reply reply = { .reserve = give_room, .arg = out };

    out->len = 0;
    return fl_relay_take(m, rank, &(fl_relay_take_request){ generation, seen },
                         max_bytes, &reply);
}

/* What a reply holds, apart by bars. */
static void text_of(const fl_pack *p, char *out, size_t cap)
{
    fl_unpack u = { .at = p->data, .end = p->data + p->len };
    size_t at = 0;

    out[0] = '\0';
    while (p->len && u.at < u.end) {
        uint64_t len = fl_unpack_u64(&u);
        const char *bytes = fl_unpack_bytes(&u, len);

        assert_false(u.bad);
        at += (size_t)snprintf(out + at, cap - at, "%s%.*s", at ? "|" : "",
                               (int)len, bytes);
    }
}

static void expect_messages(fl_relay *m, uint32_t rank, uint64_t generation,
                            uint64_t seen, const char *want)
{
    fl_pack p = { 0 };
    char text[256];

    assert_ok(take(m, rank, generation, seen, 1 << 20, &p));
    text_of(&p, text, sizeof(text));
    assert_string_equal(text, want);
    fl_pack_release(&p);
}

static void messages_stay_until_they_were_seen(void **state)
{
    fl_relay *m = fl_relay_new(2);

    (void)state;
    expect_messages(m, 1, 1, 0, "");
    put_text(m, 1, 1, "one");
    put_text(m, 0, 1, "other");
    put_text(m, 1, 1, "two");
    expect_messages(m, 1, 1, 0, "one|two");
    expect_messages(m, 1, 1, 0, "one|two");
    expect_messages(m, 1, 1, 1, "two");
    put_text(m, 1, 1, "three");
    expect_messages(m, 1, 1, 2, "three");
    expect_messages(m, 1, 1, 3, "");
    assert_true(fl_relay_bytes(m, 1) == 0);
    expect_messages(m, 0, 1, 0, "other");
    fl_relay_free(m);
}

static void a_newer_generation_drops_the_older_one(void **state)
{
    fl_relay *m = fl_relay_new(1);
    fl_pack p = { 0 };
    bool is_full;

    (void)state;
    put_text(m, 0, 1, "old");
    put_text(m, 0, 2, "new");
    assert_int_equal(put(m, 0, 1, "x", 1, &is_full), FL_ERR_CLOSED);
    assert_int_equal(take(m, 0, 1, 0, 100, &p), FL_ERR_CLOSED);
    expect_messages(m, 0, 2, 0, "new");
    expect_messages(m, 0, 3, 0, "");
    fl_relay_free(m);
}

static void a_full_mailbox_takes_no_more_until_some_were_seen(void **state)
{
    fl_relay *m = fl_relay_new(1);
    size_t len = 16 << 20;
    char *bytes = fl_alloc(len);
    fl_pack p = { 0 };
    bool is_full;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_ok(put(m, 0, 1, bytes, len, &is_full));
        assert_false(is_full);
    }
    assert_ok(put(m, 0, 1, bytes, 1, &is_full));
    assert_true(is_full);
    /* A reply has whole messages, one at least. */
    assert_ok(take(m, 0, 1, 0, 1 << 20, &p));
    assert_int_equal(p.len, len + 8);
    assert_ok(take(m, 0, 1, 1, 1 << 20, &p));
    assert_ok(put(m, 0, 1, bytes, 1, &is_full));
    assert_false(is_full);
    fl_pack_release(&p);
    fl_free(bytes);
    fl_relay_free(m);
}

static void a_message_above_the_limit_needs_an_empty_mailbox(void **state)
{
    fl_relay *m = fl_relay_new(1);
    size_t len = (64 << 20) + 1;
    char *bytes = fl_alloc(len);
    bool is_full;

    (void)state;
    put_text(m, 0, 1, "first");
    assert_ok(put(m, 0, 1, bytes, len, &is_full));
    assert_true(is_full);
    expect_messages(m, 0, 1, 1, "");
    assert_ok(put(m, 0, 1, bytes, len, &is_full));
    assert_false(is_full);
    assert_ok(put(m, 0, 1, bytes, 0, &is_full));
    assert_true(is_full);
    fl_free(bytes);
    fl_relay_free(m);
}

static void a_reply_has_as_many_messages_as_fit(void **state)
{
    fl_relay *m = fl_relay_new(1);
    fl_pack p = { 0 };
    char text[256];

    (void)state;
    put_text(m, 0, 1, "aaaa");
    put_text(m, 0, 1, "bbbb");
    put_text(m, 0, 1, "cccc");
    assert_ok(take(m, 0, 1, 0, 24, &p));
    text_of(&p, text, sizeof(text));
    assert_string_equal(text, "aaaa|bbbb");
    assert_ok(take(m, 0, 1, 2, 24, &p));
    text_of(&p, text, sizeof(text));
    assert_string_equal(text, "cccc");
    fl_pack_release(&p);
    fl_relay_free(m);
}

static void what_is_not_there_is_refused(void **state)
{
    fl_relay *m = fl_relay_new(2);
    fl_pack p = { 0 };
    bool is_full;

    (void)state;
    assert_int_equal(put(m, 2, 0, "x", 1, &is_full), FL_ERR_NOTFOUND);
    /* More, or fewer, than there were. */
    put_text(m, 0, 1, "one");
    assert_int_equal(take(m, 0, 1, 2, 100, &p), FL_ERR_INVAL);
    expect_messages(m, 0, 1, 1, "");
    assert_int_equal(take(m, 0, 1, 0, 100, &p), FL_ERR_INVAL);
    fl_relay_free(m);
}

static void no_memory_is_an_error_and_loses_nothing(void **state)
{
    fl_relay *m = fl_relay_new(1);
    bool is_full;

    (void)state;
    put_text(m, 0, 1, "one");
    fl_alloc_fail_after(1);
    assert_int_equal(put(m, 0, 1, "two", 3, &is_full), FL_ERR_NOMEM);
    fl_alloc_fail_after(0);
    expect_messages(m, 0, 1, 0, "one");
    fl_relay_free(m);
}

#define WRITERS 4
#define PER_WRITER 2000

static void write_many(void *arg)
{
    uint64_t number = 0;
    bool is_full;

    for (int i = 0; i < PER_WRITER; i++) {
        number++;
        if (put(arg, 0, 1, &number, sizeof(number), &is_full) || is_full)
            return;
    }
}

static void many_threads_may_write_while_one_takes(void **state)
{
    fl_relay *m = fl_relay_new(1);
    fl_thread *threads[WRITERS];
    uint64_t seen = 0, sum = 0;
    fl_pack p = { 0 };

    (void)state;
    for (int i = 0; i < WRITERS; i++)
        assert_ok(fl_thread_start(&threads[i], "writer", write_many, m));
    while (seen < WRITERS * PER_WRITER) {
        fl_unpack u;

        assert_ok(take(m, 0, 1, seen, 4096, &p));
        u = (fl_unpack){ .at = p.data, .end = p.data + p.len };
        for (size_t i = 0; i < p.len / 16; i++, seen++) {
            assert_true(fl_unpack_u64(&u) == 8);
            sum += fl_unpack_u64(&u);
        }
    }
    for (int i = 0; i < WRITERS; i++)
        fl_thread_join(threads[i]);
    assert_true(sum == WRITERS * (PER_WRITER * (PER_WRITER + UINT64_C(1)) / 2));
    fl_pack_release(&p);
    fl_relay_free(m);
}

/* --- clients and servers -------------------------------------------------- */

#define TRAINERS 3
#define MESSAGES 60

/* A message is its sender and number, and then as many bytes as those say. */
typedef struct note {
    uint32_t from, number;
} note;

typedef struct inbox {
    outcome o;
    fl_client_inbox in;
    uint64_t seen[SERVERS_MAX];
    uint32_t n, n_of[TRAINERS][MESSAGES];
} inbox;

static size_t note_len(const note *n)
{
    return sizeof(*n) + fl_mix64(n->from * 1000 + n->number) % 5000;
}

static fl_status on_message(void *arg, fl_msg_bytes bytes)
{
    inbox *in = arg;
    note n;

    memcpy(&n, bytes.data, sizeof(n));
    if (n.from >= TRAINERS || n.number >= MESSAGES || bytes.len != note_len(&n))
        FL_FAIL(FL_ERR_CORRUPT, "a message is not what was sent");
    in->n_of[n.from][n.number]++;
    in->n++;
    return FL_OK;
}

static void take_all(job *j, int trainer, inbox *in)
{
    in->o = (outcome){ 0 };
    in->in = (fl_client_inbox){ 1, in->seen, on_message, in };
    assert_ok(fl_client_relay_take(j->clients[trainer], &in->in,
                                   (fl_ending){ on_outcome, &in->o }));
    assert_ok(job_end(j, &in->o));
}

static fl_status send_note(job *j, int from, int to, uint32_t number)
{
    char bytes[8192] = { 0 };
    note n = { (uint32_t)from, number };
    fl_relay_request r = { (uint32_t)to, 1, { bytes, note_len(&n) } };
    outcome o = { 0 };
    bool is_full = true;

    memcpy(bytes, &n, sizeof(n));
    FL_TRY(fl_client_relay(j->clients[from], (int)number % j->n_servers, &r,
                           &is_full, (fl_ending){ on_outcome, &o }));
    FL_TRY(job_end(j, &o));
    assert_false(is_full);
    return FL_OK;
}

static void every_message_comes_once_whatever_is_cut(void **state)
{
    static const fl_sim_faults faults[] = {
        { .seed = 1, .delay_hi_ms = 3 },
        { .seed = 2, .delay_hi_ms = 3, .cut_after_bytes = 30000 },
        { .seed = 3, .delay_hi_ms = 9, .cut_after_bytes = 12000 },
    };
    static inbox in[TRAINERS];

    (void)state;
    for (size_t f = 0; f < FL_LEN(faults); f++) {
        job j;

        memset(in, 0, sizeof(in));
        job_init(&j, 2, TRAINERS, &faults[f]);
        job_wait(&j);
        for (uint32_t i = 0; i < MESSAGES; i++)
            for (int from = 0; from < TRAINERS; from++) {
                assert_ok(
                    send_note(&j, from, (from + 1 + (int)i % 2) % TRAINERS, i));
                if (i % 7 == 0)
                    take_all(&j, from, &in[from]);
            }
        for (int t = 0; t < TRAINERS; t++) {
            uint32_t before;

            do {
                before = in[t].n;
                take_all(&j, t, &in[t]);
            } while (in[t].n > before);
            assert_int_equal(in[t].n, MESSAGES);
            for (uint32_t i = 0; i < MESSAGES; i++)
                for (int from = 0; from < TRAINERS; from++)
                    assert_int_equal(in[t].n_of[from][i],
                                     (from + 1 + (int)i % 2) % TRAINERS == t);
        }
        job_release(&j);
    }
}

static fl_status refuse_message(void *arg, fl_msg_bytes bytes)
{
    (void)arg;
    (void)bytes;
    FL_FAIL(FL_ERR_CORRUPT, "nobody wants this");
}

static void an_error_of_the_receiver_is_that_of_the_request(void **state)
{
    inbox in = { 0 };
    job j;

    (void)state;
    job_init(&j, 2, 2, &(fl_sim_faults){ .seed = 1 });
    job_wait(&j);
    assert_ok(send_note(&j, 0, 1, 0));
    in.in = (fl_client_inbox){ 1, in.seen, refuse_message, NULL };
    assert_ok(fl_client_relay_take(j.clients[1], &in.in,
                                   (fl_ending){ on_outcome, &in.o }));
    assert_int_equal(job_end(&j, &in.o), FL_ERR_CORRUPT);
    assert_has(fl_last_error(), "nobody wants this");
    assert_true(in.seen[0] == 0);
    take_all(&j, 1, &in);
    assert_int_equal(in.n, 1);
    assert_int_equal(send_note(&j, 0, 7, 0), FL_ERR_NOTFOUND);
    job_release(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_stay_until_they_were_seen),
        cmocka_unit_test(a_newer_generation_drops_the_older_one),
        cmocka_unit_test(a_full_mailbox_takes_no_more_until_some_were_seen),
        cmocka_unit_test(a_message_above_the_limit_needs_an_empty_mailbox),
        cmocka_unit_test(a_reply_has_as_many_messages_as_fit),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(no_memory_is_an_error_and_loses_nothing),
        cmocka_unit_test(many_threads_may_write_while_one_takes),
        cmocka_unit_test(every_message_comes_once_whatever_is_cut),
        cmocka_unit_test(an_error_of_the_receiver_is_that_of_the_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
