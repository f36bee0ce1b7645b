# completion.awk: the option table of a tool and completion.bash around it, to completion of its command lines by bash.
#   TOOL --help=table | awk -v tool=TOOL -f completion.awk - completion.bash
# @WORDS@ becomes the options as they are written, @CASES@ tells which word the table has for an option's argument.
FNR == NR {
    split($0, field, "\t")
    name = "--" field[2]
    if (field[4] != "") {
        words = words " " name "="
        cases = cases "    " name (field[3] == "" ? "" : "|-" field[3]) ") kind='" field[4] "' ;;\n"
    } else {
        opposite = "--no-" field[2]
        sub(/^--no-no-/, "--", opposite)
        words = words " " name (field[1] == "Help" ? "" : " " opposite)
    }
    next
}
/^@CASES@$/ { printf "%s", cases; next }
{
    gsub(/@WORDS@/, substr(words, 2))
    gsub(/@TOOL@/, tool)
    print
}
