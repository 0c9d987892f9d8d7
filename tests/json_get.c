/* For shell tests: reads one JSON value from standard input and prints the value at a path such as images.0.top.0.label, or the number of
   members of an array or object. Exits 1 if the input is not exactly one JSON value or lacks the path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = json_loadf(stdin, JSON_REJECT_DUPLICATES, &error);
    if (argc != 2 || !root) {
        fprintf(stderr, "%s: %s\n", argv[0], root ? "a path is required" : error.text);
        json_decref(root);
        return 1;
    }
    const json_t *value = root;
    for (char *name = strtok(argv[1], "."); name && value; name = strtok(NULL, "."))
        value = json_is_array(value) ? json_array_get(value, (size_t)strtoul(name, NULL, 10)) : json_object_get(value, name);
    if (json_is_string(value))
        puts(json_string_value(value));
    else if (json_is_array(value))
        printf("%zu\n", json_array_size(value));
    else if (json_is_object(value))
        printf("%zu\n", json_object_size(value));
    else if (json_is_integer(value))
        printf("%lld\n", (long long)json_integer_value(value));
    else if (json_is_real(value))
        printf("%.9g\n", json_real_value(value));
    else if (value)
        puts(json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
    const int found = value != NULL;
    json_decref(root);
    return found ? 0 : 1;
}
