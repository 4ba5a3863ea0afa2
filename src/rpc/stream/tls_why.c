/* tls_why.c - what went wrong with a peer, in a sentence for its operator.
 *
 * OpenSSL's own texts ("wrong version number") are about its parser. What
 * people get wrong is about the same few things, and those have sentences of
 * their own here; the rest is passed on.
 */
#include <string.h>

#include "rpc/wire/frame.h"
#include "rpc/stream/tls_inside.h"

#define UNKNOWN_AUTHORITY                                                      \
    "was not signed by this authority; compare the authority files of both "   \
    "ends"
#define OLD_VERSION "it does not speak TLS 1.3, and nothing older is accepted"

const char *fl_tls_verify_text(long code)
{
    switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "is expired; make a new certificate";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "is not valid yet; compare the clocks of the machines";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return UNKNOWN_AUTHORITY;
    case X509_V_ERR_INVALID_PURPOSE:
        return "must be allowed for clients and for servers "
               "(extendedKeyUsage)";
    default:
        return X509_verify_cert_error_string(code);
    }
}

typedef struct known {
    int reason;
    const char *text;
} known;

static const known knowns[] = {
    { SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE,
      "it showed no certificate; every member needs one" },
    { SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
      "it wants a certificate and was shown none" },
    { SSL_R_TLSV1_ALERT_UNKNOWN_CA,
      "it refused our certificate, which " UNKNOWN_AUTHORITY },
    { SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
      "it refused our certificate, which " UNKNOWN_AUTHORITY },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
      "it refused our certificate, which is expired; make a new certificate" },
    { SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED,
      "it refused our certificate, which is revoked; make a new certificate" },
    { SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
      "it refused our certificate as a bad one" },
    { SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
      "it refused our certificate, which must be allowed for clients and for "
      "servers (extendedKeyUsage)" },
    { SSL_R_UNSUPPORTED_PROTOCOL, OLD_VERSION },
    { SSL_R_VERSION_TOO_LOW, OLD_VERSION },
    { SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, OLD_VERSION },
};

static const char *known_text(int reason)
{
    for (size_t i = 0; i < FL_LEN(knowns); i++)
        if (knowns[i].reason == reason)
            return knowns[i].text;
    return NULL;
}

static const char *reason_text(unsigned long e)
{
    const char *text = ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e))
                                           : ERR_reason_error_string(e);

    return text ? text : "no reason is given";
}

const char *fl_tls_reason(void)
{
    unsigned long e = ERR_peek_error();

    ERR_clear_error();
    return reason_text(e);
}

/* The first bytes of an HTTP request or answer, and of our own frames. */
static bool starts_with(const fl_tls_peer *p, const char *four)
{
    return p->n_first == FL_TLS_FIRST_BYTES &&
           memcmp(p->first, four, FL_TLS_FIRST_BYTES) == 0;
}

static bool is_http(const fl_tls_peer *p)
{
    static const char *const starts[] = { "GET ", "POST", "HEAD", "PUT ",
                                          "OPTI", "CONN", "HTTP", "PRI " };

    for (size_t i = 0; i < FL_LEN(starts); i++)
        if (starts_with(p, starts[i]))
            return true;
    return false;
}

static bool is_frame(const fl_tls_peer *p)
{
    uint8_t head[FL_TLS_FIRST_BYTES];

    for (unsigned i = 0; i < sizeof(head); i++)
        head[i] = (uint8_t)(FL_FRAME_MAGIC >> (8 * i));
    return starts_with(p, (const char *)head);
}

/* A record begins with its kind (20 to 23) and a version of 3.x. */
static bool is_record(const fl_tls_peer *p)
{
    return p->first[0] >= 20 && p->first[0] <= 23 &&
           (p->n_first < 2 || p->first[1] == 3);
}

fl_status fl_tls_why_first(const fl_tls_peer *p)
{
    if (!p->shaking || p->n_first == 0 || is_record(p))
        return FL_OK;
    if (is_http(p))
        FL_FAIL(FL_ERR_CORRUPT,
                "TLS with %s failed: it speaks plain HTTP; is the address "
                "right?",
                p->name);
    if (is_frame(p))
        FL_FAIL(FL_ERR_CORRUPT,
                "TLS with %s failed: it is a member without TLS; give it "
                "certificates, too",
                p->name);
    FL_FAIL(FL_ERR_CORRUPT,
            "TLS with %s failed: what it sends is not TLS; is the address "
            "right?",
            p->name);
}

/* Below the error of the protocol there may be others, of a signature for
   example, which say less. */
static unsigned long take_error(void)
{
    unsigned long first = ERR_peek_error(), e;

    for (e = ERR_get_error(); e; e = ERR_get_error())
        if (ERR_GET_LIB(e) == ERR_LIB_SSL)
            break;
    ERR_clear_error();
    return e ? e : first;
}

fl_status fl_tls_why(const fl_tls_peer *p)
{
    unsigned long e = take_error();
    int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
    const char *text = known_text(reason);

    if (!e)
        return FL_OK;
    FL_TRY(fl_tls_why_first(p));
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        FL_FAIL(FL_ERR_INVAL, "TLS with %s failed: its certificate %s", p->name,
                fl_tls_verify_text(SSL_get_verify_result(p->ssl)));
    if (text)
        FL_FAIL(FL_ERR_INVAL, "TLS with %s failed: %s", p->name, text);
    FL_FAIL(FL_ERR_CORRUPT, "TLS with %s failed: %s", p->name, reason_text(e));
}
