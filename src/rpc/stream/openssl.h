/* openssl.h - the headers of OpenSSL, for auth.c and tls*.c only. */
#ifndef FL_RPC_STREAM_OPENSSL_H
#define FL_RPC_STREAM_OPENSSL_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#endif
