/* test_coord_random.c - thousands of random jobs: whatever happens in whatever
 * order, every question is answered once, and a barrier lets its trainers go
 * when all are there and not before. */
#include "coord_kit.h"

#define N_JOBS 1000
#define N_EVENTS 200
#define TRAINERS_MAX 6
#define SERVERS_MAX 3
#define N_NAMES 2

typedef struct asked {
    uint32_t rank, name;
    uint64_t generation;
} asked;

/* A job, and what is true of it as far as the test knows. */
typedef struct job {
    uint64_t draws;
    fl_coord_options o;
    world *w;
    bool joined[TRAINERS_MAX], is_live[TRAINERS_MAX];
    asked questions[N_EVENTS];
    bool was_open[N_EVENTS];
    bool has_passed[N_NAMES];
    uint64_t passed[N_NAMES];
} job;

static uint32_t draw(job *j, uint32_t n)
{
    j->draws += 0x9e3779b97f4a7c15u;
    return (uint32_t)(fl_mix64(j->draws) % n);
}

/* --- what must be true after every event --------------------------------- */

/* The coordinator alone knows whom it gave up; it says so. */
static void learn_losses(job *j)
{
    for (size_t i = 0; i < j->w->lines.len; i++) {
        const char *line = j->w->lines.data[i];
        unsigned rank;

        if (sscanf(line, "trainer %u", &rank) != 1 ||
            rank >= (unsigned)j->o.n_trainers)
            continue;
        if (strstr(line, "stays untrained"))
            j->is_live[rank] = false;
        if (strstr(line, "counts again"))
            j->is_live[rank] = true;
    }
    forget_lines(j->w);
}

static bool is_same(const asked *a, const asked *b)
{
    return a->name == b->name && a->generation == b->generation;
}

/* Whether this trainer's question for the same barrier is one of `in`. */
static bool has_asked(const job *j, uint32_t rank, const asked *what,
                      const bool *in)
{
    for (size_t i = 0; i < j->w->n_asked; i++)
        if (in[i] && j->questions[i].rank == rank &&
            is_same(&j->questions[i], what))
            return true;
    return false;
}

static bool all_live_asked(const job *j, const asked *what, const bool *in)
{
    for (uint32_t rank = 0; rank < (uint32_t)j->o.n_trainers; rank++)
        if (j->is_live[rank] && !has_asked(j, rank, what, in))
            return false;
    return true;
}

static bool is_passed(const job *j, const asked *q)
{
    return j->has_passed[q->name] && q->generation <= j->passed[q->name];
}

/* A barrier that was let go now had all live trainers in it. */
static void check_let_go(job *j, const bool *let_go)
{
    for (size_t i = 0; i < j->w->n_asked; i++) {
        const asked *q = &j->questions[i];

        if (!let_go[i] || is_passed(j, q) || !all_live_asked(j, q, let_go))
            continue;
        j->has_passed[q->name] = true;
        j->passed[q->name] = q->generation;
    }
    for (size_t i = 0; i < j->w->n_asked; i++)
        assert_true(!let_go[i] || (fl_coord_is_complete(j->w->c) &&
                                   is_passed(j, &j->questions[i])));
}

static void check(job *j)
{
    bool open[N_EVENTS] = { false }, let_go[N_EVENTS] = { false };
    world *w = j->w;

    learn_losses(j);
    for (size_t i = 0; i < w->n_asked; i++) {
        assert_true(w->n_answers[i] <= 1);
        open[i] = is_open(w, i);
        let_go[i] = j->was_open[i] && has_answer(w, i, FL_OK);
    }
    check_let_go(j, let_go);
    for (size_t i = 0; i < w->n_asked; i++) {
        if (!open[i])
            continue;
        assert_int_equal(w->n_over, 0);
        assert_true(j->is_live[j->questions[i].rank]);
        assert_false(fl_coord_is_complete(w->c) &&
                     all_live_asked(j, &j->questions[i], open));
    }
    assert_true(w->n_over <= 1);
    memcpy(j->was_open, open, sizeof(open));
}

/* --- events -------------------------------------------------------------- */

static void event_join(job *j, fl_member_role role, uint32_t rank)
{
    fl_identity who = member(role, rank, 1 + draw(j, 3));
    uint32_t incarnation = 0;

    if (role == FL_MEMBER_SERVER)
        who.boot_id = draw(j, 8) == 0;
    else if (draw(j, 2))
        who.incarnation = fl_coord_incarnation(j->w->c, role, rank);
    if (fl_coord_join(j->w->c, &who, "10.0.0.1:1", j->w->now_ms, &incarnation))
        return;
    assert_int_equal(incarnation, fl_coord_incarnation(j->w->c, role, rank));
    /* With the incarnation that it has it may be one that has left. */
    if (role == FL_MEMBER_TRAINER && rank < TRAINERS_MAX) {
        bool is_known = j->joined[rank] && who.incarnation == incarnation;

        j->is_live[rank] |= !is_known;
        j->joined[rank] = true;
    }
}

static void event_ask(job *j, uint32_t rank)
{
    static const char *const names[N_NAMES] = { "start", "epoch" };
    asked q = { .rank = rank, .name = draw(j, N_NAMES) };

    q.generation = draw(j, 3) + j->passed[q.name];
    if (q.generation && draw(j, 8) == 0)
        q.generation--;
    j->questions[j->w->n_asked] = q;
    j->was_open[j->w->n_asked] = true;
    (void)ask(j->w, rank, names[q.name], q.generation);
}

static void event_leave(job *j, fl_member_role role, uint32_t rank)
{
    if (role == FL_MEMBER_SERVER && draw(j, 20))
        return;
    if (role == FL_MEMBER_TRAINER && rank < TRAINERS_MAX)
        j->is_live[rank] = false;
    fl_coord_leave(j->w->c, role, rank, j->w->now_ms);
}

static void event(job *j)
{
    bool is_server = draw(j, 4) == 0;
    fl_member_role role = is_server ? FL_MEMBER_SERVER : FL_MEMBER_TRAINER;
    uint32_t n = (uint32_t)(is_server ? j->o.n_servers : j->o.n_trainers);
    uint32_t rank = draw(j, 50) ? draw(j, n) : n;
    world *w = j->w;

    switch (draw(j, 16)) {
    case 0:
    case 1:
    case 2:
        event_join(j, role, rank);
        break;
    case 3:
        event_leave(j, role, rank);
        break;
    case 4:
        fl_coord_down(w->c, role, rank, "cut", w->now_ms);
        break;
    case 5:
        fl_coord_up(w->c, role, rank, w->now_ms);
        break;
    case 6:
        if (draw(j, 2))
            fl_coord_silent(w->c, role, rank, draw(j, 3000), draw(j, 9),
                            w->now_ms);
        else
            fl_coord_heard(w->c, role, rank, draw(j, 9), w->now_ms);
        break;
    case 7:
        fl_coord_report(w->c, rank,
                        &(fl_report_request){ "train", draw(j, 100), 1, 1, 0 },
                        w->now_ms);
        break;
    case 8:
        pass_ms(w, draw(j, 3000));
        break;
    default:
        if (rank < (uint32_t)j->o.n_trainers)
            event_ask(j, rank);
    }
}

static void run_job(uint64_t seed)
{
    job *j = fl_alloc(sizeof(*j));
    bool gather;

    j->draws = seed << 20;
    j->o = (fl_coord_options){
        .n_servers = 1 + (int)draw(j, SERVERS_MAX),
        .n_trainers = 1 + (int)draw(j, TRAINERS_MAX - 1),
        .connect_timeout_ms = 20000 + draw(j, 40000),
        .restart_timeout_ms = draw(j, 4) ? draw(j, 30000) : UINT64_MAX,
        .go_on_without = draw(j, 4) != 0,
    };
    j->w = world_new(&j->o);
    gather = draw(j, 4) != 0;
    for (uint32_t i = 0; gather && i < (uint32_t)j->o.n_trainers; i++)
        event_join(j, FL_MEMBER_TRAINER, i);
    for (uint32_t i = 1; gather && i < (uint32_t)j->o.n_servers; i++)
        event_join(j, FL_MEMBER_SERVER, i);
    for (int i = 0; i < N_EVENTS; i++) {
        event(j);
        check(j);
        if (i % 16 == 0)
            free(page_of(j->w, j->w->now_ms));
    }
    (void)fl_err_set(FL_ERR_CLOSED, "the test ends");
    fl_coord_end(j->w->c, FL_ERR_CLOSED);
    for (size_t i = 0; i < j->w->n_asked; i++)
        assert_int_equal(j->w->n_answers[i], 1);
    assert_int_equal(j->w->n_over, 1);
    world_free(j->w);
    fl_free(j);
}

static void random_jobs_answer_every_question_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_JOBS; seed++)
        run_job(seed);
}

/* Every wait has an end: when nothing more comes, time alone ends the job. */
static void a_job_that_everybody_deserts_ends_by_itself(void **state)
{
    (void)state;
    for (int n = 0; n <= 4; n++) {
        world *w = world_new(&(fl_coord_options){ .n_servers = 2,
                                                  .n_trainers = 3,
                                                  .connect_timeout_ms = 5000,
                                                  .restart_timeout_ms = 5000,
                                                  .go_on_without = n % 2 });

        for (int i = 0; i < n; i++) {
            fl_member_role role = i < 3 ? FL_MEMBER_TRAINER : FL_MEMBER_SERVER;
            uint32_t rank = i < 3 ? (uint32_t)i : 1;

            (void)join(w, role, rank, 70);
            if (i < 3)
                (void)ask(w, rank, i == 2 ? "other" : "start", 0);
            fl_coord_silent(w->c, role, rank, 2000, 0, w->now_ms);
        }
        pass_ms(w, 10000);
        assert_int_equal(w->n_over, 1);
        for (size_t i = 0; i < w->n_asked; i++)
            assert_int_equal(w->n_answers[i], 1);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_answer_every_question_once),
        cmocka_unit_test(a_job_that_everybody_deserts_ends_by_itself),
    };

    return cmocka_run_group_tests_name("coord_random", tests, NULL, NULL);
}
