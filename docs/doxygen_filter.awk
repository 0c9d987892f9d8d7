# Makes Doxygen read the headers' plain comments: one that opens a line documents what follows, one behind code what stands before it.
# Lines that are indented by two more than their comment, below an empty line or a colon, are shown as they are.
FNR == 1 { in_comment = verbatim = 0 }

{
    line = $0
    if (!in_comment && match(line, /\/\*/)) {
        before = substr(line, 1, RSTART - 1)
        after = substr(line, RSTART + 2)
        in_comment = 1
        behind = before ~ /[^ ]/
        if (FNR == 1)
            mark = FILENAME ~ /\/raggedvit\.h$/ ? "/** @mainpage notitle\n" : "/** @file\n  "
        else
            mark = behind ? "/**<" : "/**"
        line = before (after ~ /^ *clang-format/ ? "/*" : mark) after
        opens = after ~ /:$/
    } else if (in_comment && !behind) {
        indented = line ~ /^     +[^ ]/
        if (verbatim && !indented) {
            print "@endverbatim"
            verbatim = 0
        } else if (!verbatim && indented && opens) {
            print "@verbatim"
            verbatim = 1
        }
        opens = line ~ /^ *$/ || line ~ /:$/
    }
    if (in_comment && line ~ /\*\//) {
        if (verbatim)
            sub(/ *\*\/ *$/, "\n@endverbatim */", line)
        in_comment = verbatim = 0
    }
    print line
}
