/* proof: HMAC-SHA256 proofs, random tokens and base64 (libcrypto). */
#ifndef BELAY_COMMON_PROOF_H
#define BELAY_COMMON_PROOF_H

#include <stdbool.h>
#include <stddef.h>

#define PROOF_NONCE_SIZE 33 /* 16 random bytes as 32 hex digits + NUL */
#define PROOF_SIZE       65 /* SHA-256 as 64 hex digits + NUL */

/* From libcrypto's random numbers; ends the program when there are none. */
void proof_nonce(char out[PROOF_NONCE_SIZE]);
/* HMAC-SHA256(secret, text) in hex. */
void proof_make(const char *secret, const char *text, char out[PROOF_SIZE]);
/* Constant-time comparison with what proof_make gives. */
bool proof_check(const char *secret, const char *text, const char *proof);

char *base64_encode(const void *data, size_t len);  /* caller frees */
void *base64_decode(const char *text, size_t *len); /* NULL when not base64; caller frees */

#endif
