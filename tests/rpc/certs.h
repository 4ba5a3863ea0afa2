/* certs.h - authorities, certificates and keys that live as long as a test. */
#ifndef FL_TESTS_RPC_CERTS_H
#define FL_TESTS_RPC_CERTS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#define CERT_HOUR 3600L

typedef struct test_cert {
    EVP_PKEY *key;
    X509 *cert;
} test_cert;

static inline void test_cert_release(test_cert *c)
{
    X509_free(c->cert);
    EVP_PKEY_free(c->key);
    *c = (test_cert){ 0 };
}

static inline bool test_cert_extend(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e && X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
    return ok;
}

/* Valid from `from` to `to` seconds from now. Signed by itself, as an
   authority, when `by` is NULL. `use` is an extendedKeyUsage, or NULL. */
static inline bool test_cert_make(test_cert *out, const char *name,
                                  const test_cert *by, long from, long to,
                                  const char *use)
{
    X509_NAME *subject = X509_NAME_new();
    X509 *cert = X509_new();
    bool ok;

    out->key = EVP_EC_gen("P-256");
    out->cert = cert;
    ok = subject && cert && out->key &&
         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                    (const unsigned char *)name, -1, -1, 0) &&
         X509_set_version(cert, X509_VERSION_3) &&
         ASN1_INTEGER_set(X509_get_serialNumber(cert), by ? 2 : 1) &&
         X509_gmtime_adj(X509_getm_notBefore(cert), from) &&
         X509_gmtime_adj(X509_getm_notAfter(cert), to) &&
         X509_set_subject_name(cert, subject) &&
         X509_set_issuer_name(cert,
                              by ? X509_get_subject_name(by->cert) : subject) &&
         X509_set_pubkey(cert, out->key) &&
         test_cert_extend(cert, NID_basic_constraints,
                          by ? "critical,CA:FALSE" : "critical,CA:TRUE") &&
         (!use || test_cert_extend(cert, NID_ext_key_usage, use)) &&
         X509_sign(cert, by ? by->key : out->key, EVP_sha256()) > 0;
    X509_NAME_free(subject);
    return ok;
}

/* `password` NULL: the key is written as it is. */
static inline bool test_key_write(const test_cert *c, const char *path,
                                  const char *password)
{
    FILE *f = fopen(path, "w");
    bool ok = f && PEM_write_PKCS8PrivateKey(
                       f, c->key, password ? EVP_aes_128_cbc() : NULL, password,
                       password ? (int)strlen(password) : 0, NULL, NULL);

    return f && fclose(f) == 0 && ok;
}

static inline bool test_cert_write(const test_cert *c, const char *path)
{
    FILE *f = fopen(path, "w");
    bool ok = f && PEM_write_X509(f, c->cert);

    return f && fclose(f) == 0 && ok;
}

#endif
