/* raw_kit.h - a peer that is played byte by byte, over a blocking socket.
 *
 * Every read ends: with bytes, with the connection, or after a minute, which
 * counts as a failure. Nothing here asserts, so that it may run in a process
 * of its own.
 */
#ifndef FL_TESTS_PS_RAW_KIT_H
#define FL_TESTS_PS_RAW_KIT_H

#include "job_kit.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include "ps/msg/message.h"
#include "rpc/wire/handshake.h"

#define RAW_PATIENCE_S 60
#define RAW_BYTES_MAX 65536

typedef struct raw_message {
    fl_frame frame;
    uint8_t bytes[RAW_BYTES_MAX];
} raw_message;

/* -1 when nobody listens there. */
static inline int raw_dial(uint16_t port)
{
    struct timeval patience = { .tv_sec = RAW_PATIENCE_S };
    struct sockaddr_in at = port_place(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd >= 0 &&
        !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) &&
        !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) &&
        !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) &&
        !connect(fd, (struct sockaddr *)&at, sizeof(at)))
        return fd;
    close(fd);
    return -1;
}

static inline bool raw_write(int fd, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;

    while (n) {
        ssize_t done = send(fd, at, n, MSG_NOSIGNAL);

        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

static inline bool raw_read(int fd, void *out, size_t n)
{
    uint8_t *at = out;

    while (n) {
        ssize_t done = recv(fd, at, n, 0);

        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

/* Whether the peer ends the connection, after any number of bytes. */
static inline bool raw_is_closed(int fd)
{
    uint8_t bytes[256];
    ssize_t n;

    do
        n = recv(fd, bytes, sizeof(bytes), 0);
    while (n > 0);
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static inline bool raw_send(int fd, const fl_frame *f, const void *payload,
                            size_t len)
{
    uint8_t head[FL_FRAME_BYTES];
    fl_frame g = *f;

    g.length = len;
    fl_frame_write(&g, head);
    return raw_write(fd, head, sizeof(head)) &&
           (!len || raw_write(fd, payload, len));
}

static inline bool raw_receive(int fd, raw_message *m)
{
    uint8_t head[FL_FRAME_BYTES];

    return raw_read(fd, head, sizeof(head)) &&
           !fl_frame_read(head, sizeof(m->bytes), fl_msg_find_name,
                          &m->frame) &&
           (!m->frame.length ||
            raw_read(fd, m->bytes, (size_t)m->frame.length));
}

/* --- the client's side of a handshake ------------------------------------- */

typedef struct raw_client {
    fl_hello hello;
    const char *token;
    fl_pack said; /* the HELLO, as it was sent */
} raw_client;

/* A tool that looks for server 0. */
static inline raw_client raw_tool(const char *name, const char *token,
                                  uint32_t rank)
{
    raw_client c = { .token = token };

    c.hello = (fl_hello){ .version = FL_PROTOCOL_VERSION,
                          .wanted_role = FL_MEMBER_SERVER,
                          .who = { .role = FL_MEMBER_TOOL, .rank = rank } };
    (void)snprintf(c.hello.who.job, sizeof(c.hello.who.job), "%s", name);
    fl_auth_nonce(c.hello.nonce);
    return c;
}

static inline fl_frame raw_head(const raw_client *c, uint16_t type)
{
    return (fl_frame){ .type = (uint16_t)type,
                       .rank = c->hello.who.rank,
                       .incarnation = c->hello.who.incarnation };
}

static inline bool raw_hello(int fd, raw_client *c)
{
    fl_frame f = raw_head(c, FL_TYPE_HELLO);

    fl_pack_release(&c->said);
    fl_hello_pack(&c->said, &c->hello);
    return raw_send(fd, &f, c->said.data, c->said.len);
}

/* Up to the WELCOME, which is not checked. */
static inline bool raw_shake(int fd, raw_client *c)
{
    fl_frame f = raw_head(c, FL_TYPE_PROOF);
    uint8_t proof[FL_PROOF_BYTES];
    raw_message m;
    fl_auth_input in;
    bool is_done;

    is_done = raw_hello(fd, c) && raw_receive(fd, &m) &&
              m.frame.type == FL_TYPE_CHALLENGE &&
              m.frame.length == FL_NONCE_BYTES;
    if (is_done) {
        in = (fl_auth_input){ .label = "client",
                              .client_nonce = c->hello.nonce,
                              .server_nonce = m.bytes,
                              .identity = c->said.data,
                              .identity_len = c->said.len };
        fl_auth_proof(c->token, &in, proof);
        is_done = raw_send(fd, &f, proof, sizeof(proof)) &&
                  raw_receive(fd, &m) && m.frame.type == FL_TYPE_WELCOME;
    }
    fl_pack_release(&c->said);
    return is_done;
}

#endif
