// Defaults of the sanitizers, linked into what is built with SAN=... and into fuzz targets that
// start threads. AddressSanitizer's interceptor of __tls_get_addr guesses where a thread's dynamic
// TLS blocks lie; with glibc 2.36 it notes ranges that are not mapped at times, and LeakSanitizer
// then ends the program while it looks through them ("Tracer caught signal 11"). Nothing here needs
// it. UBSan's checks trap (see SANFLAGS in the Makefile): AddressSanitizer prints where. The
// function is visible, since a hidden one does not replace the sanitizer's.

// Declared by no header of ours; the sanitizer calls it.
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0:handle_sigill=1";
}
