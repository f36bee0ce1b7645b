/* embed.c: a build tool that turns text files (rules, style sheets) into one C file: a table of {name, text, size}
 * under the symbol tc_embedded_SYMBOL, declared in embedded.h. So programs need no files at run time.
 *
 *     embed SYMBOL OUT.c FILE... */
#include <stdio.h>
#include <string.h>

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One string literal per line, so that the C file is readable and compiler messages point to the line. */
static int embed_file(FILE *out, const char *path) {
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        perror(path);
        return 1;
    }
    fprintf(out, "    {\"%s\",\n     \"", base_name(path));
    size_t size = 0;
    for (int c = getc(in); c != EOF; c = getc(in), size++) {
        if (c == '\n')
            fputs("\\n\"\n     \"", out);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c > '~' || c == '?') /* '?': trigraphs */
            fprintf(out, "\\%03o", (unsigned)c);
        else
            putc(c, out);
    }
    fprintf(out, "\", %zu},\n", size);
    int failed = ferror(in);
    fclose(in);
    return failed;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: embed SYMBOL OUT.c FILE...\n");
        return 64;
    }
    FILE *out = fopen(argv[2], "w");
    if (out == NULL) {
        perror(argv[2]);
        return 5;
    }
    fprintf(out, "/* Made by embed.c; edit the text files instead. */\n#include \"passes/embedded/embedded.h\"\n\n");
    fprintf(out, "const tc_embedded tc_embedded_%s[] = {\n", argv[1]);
    int failed = 0;
    for (int i = 3; i < argc && !failed; i++)
        failed = embed_file(out, argv[i]);
    fprintf(out, "    {0},\n};\n");
    failed |= ferror(out);
    failed |= fclose(out);
    if (failed)
        remove(argv[2]);
    return failed ? 5 : 0;
}
