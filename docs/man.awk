# man.awk: the option table of a tool and the page around it, to scdoc's text.
#   TOOL --help=table | awk -f man.awk - TOOL.1.scd
# The line "@OPTIONS@" of the page becomes one heading per group and one paragraph per option.
function plain(text) {
    gsub(/[\\*_]/, "\\\\&", text)
    return text
}
FNR == NR {
    split($0, field, "\t")
    if (field[1] != group)
        options = options "## " (group = field[1]) "\n\n"
    value = field[4] == "" ? "" : "=_" field[4] "_"
    options = options (field[3] == "" ? "" : "*-" field[3] "*, ") "*--" field[2] "*" value "\n\t" plain(field[6])
    options = options (field[5] == "" ? "." : " [default: " plain(field[5]) "].") "\n\n"
    next
}
/^@OPTIONS@$/ { printf "%s", options; next }
{ print }
