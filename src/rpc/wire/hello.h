/* hello.h - who is who: the first messages of every connection.
 *
 *     client                                     server
 *     HELLO version, wanted peer, nonce, identity  ->
 *                                    <-  CHALLENGE nonce
 *     PROOF by the token             ->
 *                                    <-  WELCOME identity, sequence, proof
 *
 * A peer with a wrong token gets no answer at all. Before the proof nothing but
 * the version is told; one that has proved the token is told when its job or
 * rank does not fit, but not the job's name. The address of whoever is refused
 * is logged once.
 */
#ifndef FL_RPC_WIRE_HELLO_H
#define FL_RPC_WIRE_HELLO_H

#include "rpc/wire/auth.h"
#include "rpc/wire/frame.h"

#define FL_JOB_MAX 64

typedef enum fl_member_role {
    FL_MEMBER_SERVER = 1,
    FL_MEMBER_TRAINER = 2,
    FL_MEMBER_TOOL = 3 /* looks, and may end the job if it knows the token */
} fl_member_role;
const char *fl_member_role_name(fl_member_role r); /* "trainer" */

typedef struct fl_identity {
    fl_member_role role;
    uint32_t rank;
    uint32_t incarnation; /* 0: none given yet */
    uint64_t boot_id;     /* drawn by a server when it starts empty; kept with
                             its state. 0 for others */
    uint64_t features;    /* bits; none are defined yet */
    uint32_t process;     /* its id, for messages */
    char job[FL_JOB_MAX]; /* processes of different jobs do not talk */
    char address[128];    /* where it listens; "" when it does not */
    bool may_only_look;   /* it proved the look token; not on the wire */
} fl_identity;

void fl_identity_pack(fl_pack *p, const fl_identity *id);
/* Sets u->bad, and leaves *id as it is, for a role that is not known, a text
   that is too long or has control characters in it, or a boot id of anybody but a
   server. */
void fl_identity_unpack(fl_unpack *u, fl_identity *id);

/* "trainer 3 (10.0.0.7:4321, process 77)" in buf; without a peer (NULL or "")
   the address at which it listens, or none. */
const char *fl_identity_text(const fl_identity *id, const char *peer, char *buf,
                             size_t cap);
/* The same, with another word for its role. */
const char *fl_identity_text_as(const char *role, const fl_identity *id,
                                const char *peer, char *buf, size_t cap);

#endif
