/* proof: see proof.h. */
#include "common/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static void hex(const unsigned char *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void proof_nonce(char out[PROOF_NONCE_SIZE])
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        abort(); /* without randomness nothing here is safe */
    hex(bytes, sizeof bytes, out);
}

void proof_make(const char *secret, const char *text, char out[PROOF_SIZE])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text, strlen(text), mac,
              &len))
        abort(); /* only out of memory */
    hex(mac, len, out);
}

bool proof_check(const char *secret, const char *text, const char *proof)
{
    char expected[PROOF_SIZE];
    proof_make(secret, text, expected);
    return strlen(proof) == PROOF_SIZE - 1 && CRYPTO_memcmp(proof, expected, PROOF_SIZE - 1) == 0;
}

char *base64_encode(const void *data, size_t len)
{
    unsigned char *out = mem_zero(4 * ((len + 2) / 3) + 1, 1);
    EVP_EncodeBlock(out, data, (int)len);
    return (char *)out;
}

void *base64_decode(const char *text, size_t *len)
{
    size_t n = strlen(text), pad = 0;
    while (pad < n && pad < 2 && text[n - 1 - pad] == '=')
        pad++;
    unsigned char *out = mem_zero(n / 4 * 3 + 1, 1);
    int got = n % 4 == 0 ? EVP_DecodeBlock(out, (const unsigned char *)text, (int)n) : -1;
    if (got < 0) {
        free(out);
        return NULL;
    }
    *len = (size_t)got - pad;
    return out;
}
