/* tls.c - certificates, keys and what is allowed; tls_stream.c is the rest.
 *
 * One context serves both sides, since every member dials and is dialled.
 * Nothing is remembered between connections: no tickets and no cache, so
 * certificates are checked anew each time.
 */
#include "rpc/stream/tls.h"

#include "base/alloc.h"
#include "rpc/stream/tls_inside.h"

/* Several records per read of the inner stream. */
#define READ_BUFFER_BYTES (64 << 10)

/* Without this OpenSSL would ask for a password at the terminal, and wait. */
static int no_password(char *buf, int size, int is_write, void *arg)
{
    (void)buf;
    (void)size;
    (void)is_write;
    (void)arg;
    return -1;
}

static void set_rules(SSL_CTX *ctx)
{
    FL_ASSERT(SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1);
    FL_ASSERT(SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    FL_ASSERT(SSL_CTX_set_num_tickets(ctx, 0) == 1);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER_BYTES);
    SSL_CTX_set_default_passwd_cb(ctx, no_password);
}

static fl_status load(SSL_CTX *ctx, const fl_tls_files *files)
{
    ERR_clear_error();
    if (SSL_CTX_load_verify_file(ctx, files->ca) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: no certificate authority can be read from it (PEM): %s",
                files->ca, fl_tls_reason());
    if (SSL_CTX_use_certificate_chain_file(ctx, files->cert) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: no certificate can be read from it (PEM): %s", files->cert,
                fl_tls_reason());
    if (SSL_CTX_use_PrivateKey_file(ctx, files->key, SSL_FILETYPE_PEM) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: no key for %s can be read from it (PEM, no password): %s",
                files->key, files->cert, fl_tls_reason());
    return FL_OK;
}

static fl_status check_use(SSL_CTX *ctx, const fl_tls_files *files,
                           X509_STORE_CTX *c, int purpose)
{
    STACK_OF(X509) *chain = NULL;

    if (SSL_CTX_get0_chain_certs(ctx, &chain) != 1 ||
        X509_STORE_CTX_init(c, SSL_CTX_get_cert_store(ctx),
                            SSL_CTX_get0_certificate(ctx), chain) != 1 ||
        X509_STORE_CTX_set_purpose(c, purpose) != 1)
        FL_FAIL(FL_ERR_NOMEM, "%s: cannot be checked: %s", files->cert,
                fl_tls_reason());
    if (X509_verify_cert(c) != 1)
        FL_FAIL(FL_ERR_INVAL,
                "%s: no peer with the authority %s would accept it: it %s",
                files->cert, files->ca,
                fl_tls_verify_text(X509_STORE_CTX_get_error(c)));
    return FL_OK;
}

/* A certificate that all others will refuse is better found before dialling
   them: here the sentence can name the file. */
static fl_status check_own(SSL_CTX *ctx, const fl_tls_files *files)
{
    static const int purposes[] = { X509_PURPOSE_SSL_CLIENT,
                                    X509_PURPOSE_SSL_SERVER };
    fl_status st = FL_OK;

    for (size_t i = 0; i < FL_LEN(purposes) && !st; i++) {
        X509_STORE_CTX *c = X509_STORE_CTX_new();

        FL_ASSERT(c);
        st = check_use(ctx, files, c, purposes[i]);
        X509_STORE_CTX_free(c);
    }
    ERR_clear_error();
    return st;
}

fl_status fl_tls_new(fl_tls **out, const fl_tls_files *files)
{
    fl_tls *t = fl_alloc(sizeof(*t));
    fl_status st;

    t->ctx = SSL_CTX_new(TLS_method());
    t->bio = fl_tls_bio_method();
    FL_ASSERT(t->ctx && t->bio);
    set_rules(t->ctx);
    st = load(t->ctx, files);
    if (!st)
        st = check_own(t->ctx, files);
    if (st) {
        fl_tls_free(t);
        return fl_err_ctx(st, "TLS");
    }
    *out = t;
    return FL_OK;
}

void fl_tls_free(fl_tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    BIO_meth_free(t->bio);
    fl_free(t);
}
